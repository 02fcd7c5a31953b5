"""The packer of conversations, against batches of nanochat's own, and where it departs from it."""

from __future__ import annotations

import json

import numpy as np
import pytest
from safetensors.numpy import load_file

from xsa.data.conversation import render
from xsa.data.finetune_packing import ConversationPacking
from xsa.store.errors import UserError


def rendered(conversation):
    return conversation["ids"], conversation["mask"]


def short(*lengths: int) -> list[dict]:
    """Conversations that are told apart by their token, all of them learned but the first token."""
    return [{"ids": [0] + [n] * (length - 1), "mask": [0] + [1] * (length - 1)} for n, length in enumerate(lengths, 1)]


def packing(conversations, sequence_len, buffer_size=4, overlong="truncate"):
    return ConversationPacking(
        conversations, rendered, sequence_len=sequence_len, buffer_size=buffer_size, bos=0, overlong=overlong
    )


def test_batches_are_those_of_nanochat(reference):
    folder = reference("packing")
    stored = json.loads((folder / "sft.json").read_text())
    cases = [case for case in stored["cases"] if (folder / case["file"]).exists()]
    assert cases
    for case in cases:
        tensors = load_file(folder / case["file"])
        conversations = [stored["conversations"][i] for i in case["conversation_indices"]]
        packer = ConversationPacking(
            conversations,
            rendered,
            sequence_len=case["T"],
            buffer_size=case["buffer_size"],
            bos=case["pad_token"],
            overlong="keep",
        )
        for number, state in enumerate(case["state_after_each_batch"], 1):
            inputs, targets = packer.next_batch(case["B"])
            np.testing.assert_array_equal(inputs, tensors["inputs"][number - 1])
            np.testing.assert_array_equal(targets, tensors["targets"][number - 1])
            assert packer.epoch == state["epoch"]
            steps = case["num_iterations"]
            share = number / steps if steps > 0 else packer.consumed / len(conversations)
            assert share == pytest.approx(state["approx_progress"], abs=1e-12)
            assert (number >= steps > 0 or (steps <= 0 and share >= 1)) == state["last_step"]
        assert packer.counts["learned"] == case["supervised"]


def test_what_an_assistant_writes_is_learned_and_nothing_else(small_tokenizer):
    call = [
        {"type": "text", "text": "let me see"},
        {"type": "python", "text": "6*7"},
        {"type": "python_output", "text": "42"},
        {"type": "text", "text": "it is 42"},
    ]
    messages = [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "how much?"},
        {"role": "assistant", "content": call},
        {"role": "user", "content": "sure?"},
        {"role": "assistant", "content": "yes"},
    ]
    packer = ConversationPacking(
        [{"messages": messages}],
        lambda conversation: render(small_tokenizer, conversation, max_tokens=None),
        sequence_len=200,
        buffer_size=1,
        bos=small_tokenizer.bos,
    )
    inputs, targets = packer.next_batch(1)
    spoken = ("let me see", "<|python_start|>", "6*7", "<|python_end|>", "it is 42", "<|assistant_end|>")
    once = [*spoken, "yes", "<|assistant_end|>"]
    learned = [id for text in once for id in ids_of(small_tokenizer, text)]
    whole, rest = divmod(int((targets >= 0).sum()), len(learned))
    assert whole >= 1 and rest == 0, "a conversation is learned whole or, as padding, not at all"
    assert targets[targets >= 0].tolist() == learned * whole
    places = np.flatnonzero(targets[0, :-1] >= 0)
    assert (inputs[0, places + 1] == targets[0, places]).all(), "each target is the token that follows"


def ids_of(tokenizer, text):
    return [tokenizer.special(text)] if text.startswith("<|") else tokenizer.encode(text)


def test_overlong_conversations_clog_nanochats_packer_and_none_of_ours():
    conversations = short(40, 50, 60, 5)
    kept, truncated, dropped = (packing(conversations, 16, 3, how) for how in ("keep", "truncate", "drop"))
    assert (kept.next_batch(4)[1] == -1).all()
    inputs, targets = truncated.next_batch(4)
    assert (targets >= 0).any(axis=1).all()
    assert truncated.counts["truncated"] > 0
    inputs, targets = dropped.next_batch(4)
    assert set(inputs[targets >= 0]) <= {0, 4}
    assert (targets >= 0).any(axis=1).all()
    assert dropped.counts["dropped"] > 0


def test_truncated_conversations_have_a_rows_length_of_inputs():
    inputs, targets = packing(short(40), 16).next_batch(1)
    assert inputs.tolist() == [[0] + [1] * 15]
    assert targets.tolist() == [[1] * 15 + [-1]]


def test_dropping_every_conversation_is_an_error_with_the_length():
    with pytest.raises(UserError, match=r"more than 16 tokens.*truncate"):
        packing(short(40, 50), 16, overlong="drop").next_batch(1)


def test_dropped_conversations_count_as_consumed():
    packer = packing(short(40, 3, 40), 16, 1, overlong="drop")
    packer.next_batch(1)
    assert packer.consumed == packer.counts["placed"] + packer.counts["dropped"]


def test_an_empty_mixture_is_an_error():
    with pytest.raises(UserError, match="no conversations"):
        packing([], 16)
