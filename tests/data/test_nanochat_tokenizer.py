"""nanochat's pickled tokenizer is read as data: what it holds comes out exact, and nothing that it asks for is run."""

from __future__ import annotations

import os
import pickle

import pytest
import tiktoken
import tiktoken.registry

from xsa.data.nanochat_tokenizer import read_pickled_tokenizer, write_pickled_tokenizer
from xsa.data.tokenizer import PATTERN, SPECIAL, Tokenizer
from xsa.store.errors import UserError

BYTES = {bytes([byte]): byte for byte in range(256)}


def encoding(ranks=None, special=None, pattern=PATTERN) -> tiktoken.Encoding:
    ranks = BYTES | {b"th": 256, b"the": 257} if ranks is None else ranks
    special = {name: len(ranks) + place for place, name in enumerate(SPECIAL)} if special is None else special
    return tiktoken.Encoding("rustbpe", pat_str=pattern, mergeable_ranks=ranks, special_tokens=special)


def written(path, value, protocol=pickle.DEFAULT_PROTOCOL):
    path.write_bytes(value if isinstance(value, bytes) else pickle.dumps(value, protocol))
    return path


@pytest.mark.parametrize("protocol", range(3, pickle.HIGHEST_PROTOCOL + 1))
def test_merges_pattern_and_special_tokens_come_out_exact(tmp_path, protocol):
    found = read_pickled_tokenizer(written(tmp_path / "tokenizer.pkl", encoding(), protocol))
    assert found.ranks[256:] == [b"th", b"the"] and found.pattern == PATTERN
    assert [found.special(name) for name in SPECIAL] == list(range(258, 267))
    assert found.encode("the") == [257]


def test_the_reference_vocabulary_goes_both_ways(tmp_path, reference):
    source = reference("tokenizer") / "tokenizer.json"
    whole = write_pickled_tokenizer(tmp_path / "tokenizer.pkl", source)
    theirs = pickle.loads((tmp_path / "tokenizer.pkl").read_bytes())
    text = "A day in the hills — 1234 sheep."
    assert theirs.encode_ordinary(text) == whole.encode(text)
    again = read_pickled_tokenizer(tmp_path / "tokenizer.pkl")
    assert (again.ranks, again.pattern, again.vocab_size) == (whole.ranks, whole.pattern, whole.vocab_size)


class Runs:
    """Pickles into a call."""

    def __init__(self, call, *arguments):
        self.call, self.arguments = call, arguments

    def __reduce__(self):
        return self.call, self.arguments


def attacks(target):
    command = f"touch {target}"
    yield Runs(os.system, command), r"asks for (posix|nt)\.system"
    yield Runs(eval, f"__import__('os').system({command!r})"), r"asks for builtins\.eval"
    yield {"name": Runs(os.system, command)}, r"asks for (posix|nt)\.system"
    yield Runs(tiktoken.Encoding, "x"), "has the opcode"
    # As old as the format: a class named by text, then called.
    yield f"cos\nsystem\n(S'{command}'\ntR.".encode(), r"asks for os\.system"
    yield f"(S'{command}'\nios\nsystem\n.".encode(), "has the opcode"


def test_a_pickle_that_calls_something_is_refused_and_does_not_run(tmp_path):
    target = tmp_path / "ran"
    for number, (value, said) in enumerate(attacks(target)):
        path = written(tmp_path / f"{number}.pkl", value)
        with pytest.raises(UserError, match=rf"{said}.*Nothing of it was run.*--tokenizer"):
            read_pickled_tokenizer(path)
        assert not target.exists()


@pytest.mark.parametrize(
    "value", [{"a": 1}, (), "text", encoding, b"\x80\x04."], ids=["dict", "tuple", "text", "function", "bytes"]
)
def test_another_pickle_is_refused(tmp_path, value):
    with pytest.raises(UserError, match=r"not what nanochat writes|damaged"):
        read_pickled_tokenizer(written(tmp_path / "tokenizer.pkl", value))


def test_an_encoding_that_is_only_named_is_refused(tmp_path, monkeypatch):
    """tiktoken pickles an encoding of its registry by name, and loading it would fetch that name's vocabulary."""
    known = encoding()
    monkeypatch.setitem(tiktoken.registry.ENCODINGS, known.name, known)
    with pytest.raises(UserError, match="only names tiktoken's encoding 'rustbpe'"):
        read_pickled_tokenizer(written(tmp_path / "tokenizer.pkl", known))


@pytest.mark.parametrize("kept", [0.0, 0.1, 0.5, 0.99])
def test_a_file_cut_short_is_a_sentence(tmp_path, kept):
    content = pickle.dumps(encoding())
    with pytest.raises(UserError, match="damaged or cut short"):
        read_pickled_tokenizer(written(tmp_path / "tokenizer.pkl", content[: int(kept * len(content))]))


@pytest.mark.parametrize(
    "changed",
    [
        {"ranks": BYTES | {b"th": 300}},
        {"ranks": {token: id_ - 1 for token, id_ in BYTES.items() if id_}},
        {"special": {"<|bos|>": 999}},
        {"special": {"<|endoftext|>": 258}},
    ],
    ids=["a gap", "a byte lacks", "special apart", "no bos"],
)
def test_a_vocabulary_that_is_not_nanochats_is_refused(tmp_path, changed):
    with pytest.raises(UserError, match="a vocabulary that is not nanochat's"):
        read_pickled_tokenizer(written(tmp_path / "tokenizer.pkl", encoding(**changed)))


def test_a_missing_file_is_a_sentence(tmp_path):
    with pytest.raises(UserError, match=r"tokenizer\.pkl is missing; give the folder"):
        read_pickled_tokenizer(tmp_path / "tokenizer.pkl")


def test_what_is_written_loads_as_our_tokenizer(tmp_path):
    found = read_pickled_tokenizer(written(tmp_path / "tokenizer.pkl", encoding()))
    found.save(tmp_path / "tokenizer.json")
    assert Tokenizer.load(tmp_path / "tokenizer.json").ranks == found.ranks
