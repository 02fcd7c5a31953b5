"""Conversations as tokens, against nanochat's own."""

from __future__ import annotations

import json

import pytest

from xsa.data.conversation import render, render_prompt
from xsa.data.tokenizer import Tokenizer


@pytest.fixture(scope="module")
def cases(reference):
    folder = reference("tokenizer")
    tokenizer = Tokenizer.load(folder / "tokenizer.json")
    conversations = json.loads((folder / "conversations.json").read_text())
    return tokenizer, conversations, json.loads((folder / "conversations_more.json").read_text())


def test_ids_and_masks_are_nanochats(cases):
    tokenizer, conversations, _ = cases
    for case in conversations:
        assert render(tokenizer, case["conversation"]) == (case["ids"], case["mask"])


def test_a_truncated_conversation_is_nanochats(cases):
    tokenizer, conversations, more = cases
    for case in more["truncated"]:
        whole = conversations[case["index"]]["conversation"]
        assert render(tokenizer, whole, case["max_tokens"]) == (case["ids"], case["mask"])


def test_a_prompt_leaves_the_last_answer_out(cases):
    tokenizer, conversations, more = cases
    for case in more["for_completion"]:
        conversation = conversations[case["index"]]["conversation"]
        assert render_prompt(tokenizer, conversation) == case["ids"]
        asked = {"messages": conversation["messages"][:-1]}
        assert render_prompt(tokenizer, asked) == case["ids"]


def test_rendering_leaves_the_conversation_as_it_was(cases):
    tokenizer, conversations, _ = cases
    conversation = next(
        case["conversation"] for case in conversations if case["conversation"]["messages"][0]["role"] == "system"
    )
    before = json.dumps(conversation)
    render(tokenizer, conversation)
    render_prompt(tokenizer, conversation)
    assert json.dumps(conversation) == before


@pytest.mark.parametrize(
    ("messages", "what"),
    [
        ([], "no messages"),
        ([("assistant", "hello")], "turn 0 is of 'assistant'"),
        ([("user", "a"), ("user", "b")], "turn 1 is of 'user'"),
        ([("system", "a"), ("assistant", "b")], "system message"),
        ([("user", ["a"])], "must be text"),
        ([("user", "a"), ("assistant", 7)], "is a int"),
        ([("user", "a"), ("assistant", [{"type": "image", "text": ""}])], "'image'"),
    ],
)
def test_messages_out_of_turn_or_of_unknown_form_are_refused(small_tokenizer, messages, what):
    conversation = {"messages": [{"role": role, "content": content} for role, content in messages]}
    with pytest.raises(ValueError, match=what):
        render(small_tokenizer, conversation)
