"""The tokenizer, against one trained by nanochat, and its file."""

from __future__ import annotations

import base64
import json

import numpy as np
import pytest
from safetensors.numpy import load_file

from xsa.data.tokenizer import Tokenizer, TrainingText
from xsa.store.errors import UserError
from xsa.store.files import sha256_file
from xsa.study.stages import TokenizerStage


@pytest.fixture(scope="module")
def trained(reference):
    folder = reference("tokenizer")
    stored = json.loads((folder / "tokenizer.json").read_text())
    shards = sorted((folder / "corpus").glob("*.parquet"))[:-1]
    limits = stored["training"]
    text = TrainingText(shards, limits["max_chars"], limits["doc_cap"])
    return Tokenizer.train(text, limits["vocab_size"]), stored, folder


def test_training_gives_nanochats_tokenizer(trained):
    tokenizer, stored, _ = trained
    assert [base64.b64encode(token).decode() for token in tokenizer.ranks] == stored["mergeable_ranks_base64"]
    assert tokenizer.pattern == stored["pattern"]
    assert {name: tokenizer.special(name) for name in stored["special_tokens"]} == stored["special_tokens"]
    assert tokenizer.vocab_size == stored["vocab_size"]


def test_encodings_are_nanochats(trained):
    _, _, folder = trained
    tokenizer = Tokenizer.load(folder / "tokenizer.json")
    cases = json.loads((folder / "encodings.json").read_text())
    for case in cases:
        assert tokenizer.encode(case["text"]) == case["ids"]
        assert [tokenizer.bos, *tokenizer.encode(case["text"])] == case["ids_with_bos"]
        assert tokenizer.decode(case["ids"]) == case["text"]
    texts = [case["text"] for case in cases]
    assert tokenizer.encode_batch(texts, threads=2) == tokenizer.encode_batch(texts) == [case["ids"] for case in cases]


def test_token_bytes_are_raw_bytes_and_none_for_special_tokens(trained):
    tokenizer, _, folder = trained
    expected = load_file(folder / "token_bytes.safetensors")["token_bytes"]
    np.testing.assert_array_equal(tokenizer.token_bytes, expected)
    text = "Ærøskøbing 👍"
    assert tokenizer.token_bytes[tokenizer.encode(text)].sum() == len(text.encode())


def test_a_saved_tokenizer_is_the_same_when_loaded(tmp_path, small_tokenizer):
    path = tmp_path / "tokenizer.json"
    small_tokenizer.save(path)
    loaded = Tokenizer.load(path)
    assert loaded.ranks == small_tokenizer.ranks
    assert loaded.sha256 == small_tokenizer.sha256 == sha256_file(path)
    assert loaded.dtype == np.uint16


@pytest.mark.parametrize("text", [" " * 1_100_000 + "x", "x" * 300_000, "\n \t" * 400_000])
def test_a_million_blanks_or_letters_in_a_row_are_encoded(small_tokenizer, text):
    ids = small_tokenizer.encode(text)
    assert small_tokenizer.decode(ids) == text
    assert small_tokenizer.encode_batch([text, "a"], threads=2) == [ids, small_tokenizer.encode("a")]


def test_half_a_surrogate_pair_from_a_json_file_is_encoded(small_tokenizer):
    assert small_tokenizer.decode(small_tokenizer.encode("a\ud83d b")) == "a\ufffd b"


@pytest.mark.parametrize(
    "damage",
    [
        lambda stored: stored.pop("pattern"),
        lambda stored: stored["mergeable_ranks_base64"].pop(),
        lambda stored: stored["mergeable_ranks_base64"].append(stored["mergeable_ranks_base64"][-1]),
        lambda stored: stored["mergeable_ranks_base64"].__setitem__(70, "!!"),
        lambda stored: stored["special_tokens"].pop("<|bos|>"),
    ],
)
def test_a_damaged_tokenizer_file_is_refused(tmp_path, small_tokenizer, damage):
    path = tmp_path / "tokenizer.json"
    small_tokenizer.save(path)
    stored = json.loads(path.read_text())
    damage(stored)
    path.write_text(json.dumps(stored))
    with pytest.raises(UserError, match=r"tokenizer\.json.*make it again"):
        Tokenizer.load(path)


def test_too_little_text_for_the_vocabulary_is_an_error_with_the_number_that_would_do():
    with pytest.raises(UserError, match=r"vocab_size = 500.*Lower vocab_size to 2\d\d or less"):
        Tokenizer.train(["to be or not to be"] * 3, 500)


def test_reading_ends_after_the_document_that_passes_the_limit(tmp_path, write_shard):
    shards = [write_shard(tmp_path / f"{n}.parquet", ["x" * 10] * 4, row_group_size=3) for n in range(2)]
    text = TrainingText(shards, max_chars=30, doc_cap=100)
    assert len(list(text)) == 4
    assert (text.documents, text.characters) == (4, 40)
    assert len(list(TrainingText(shards, max_chars=79, doc_cap=100))) == 8


def test_a_document_longer_than_the_cap_is_cut(tmp_path, write_shard):
    shard = write_shard(tmp_path / "a.parquet", ["abcdefgh", "ij"])
    text = TrainingText([shard], max_chars=100, doc_cap=5)
    assert list(text) == ["abcde", "ij"]
    assert text.characters == 7


def test_the_stage_writes_the_tokenizer_and_its_byte_lengths(run_stage, local_shard, sentences):
    shards = [local_shard(sentences(300, number)) for number in range(2)]
    out = run_stage("tokenizer", TokenizerStage(vocab_size=300, max_chars=30_000, doc_cap=80), shards=shards)
    tokenizer = Tokenizer.load(out / "tokenizer.json")
    assert tokenizer.vocab_size == 300
    assert json.loads((out / "token_bytes.json").read_text()) == tokenizer.token_bytes.tolist()
    training = json.loads((out / "tokenizer.json").read_text())["training"]
    assert training["vocab_size"] == 300
    assert 30_000 < training["characters"] <= 30_080


def test_the_stage_says_how_much_was_read_when_it_was_too_little(run_stage, local_shard):
    shard = local_shard(["to be", "or not"])
    with pytest.raises(UserError, match=r"vocab_size = 400.*11 characters of 2 documents"):
        run_stage("tokenizer", TokenizerStage(vocab_size=400, max_chars=1000, doc_cap=80), shards=[shard])
