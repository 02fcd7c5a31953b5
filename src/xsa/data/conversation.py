"""Conversations as token ids, with a mask of the tokens that an assistant is to learn.

The form is nanochat's: `<|bos|>`, then each message between its start and end tokens. Learned (mask 1) are the
assistant's text and Python calls and the tokens that end them; what a tool returned is read, never learned.
"""

from __future__ import annotations

from typing import Any

from xsa.data.tokenizer import Tokenizer

# Tokens around a part of an assistant's message, and whether the part is learned; plain text has none around it.
_PARTS = {
    "text": (None, None, 1),
    "python": ("<|python_start|>", "<|python_end|>", 1),
    "python_output": ("<|output_start|>", "<|output_end|>", 0),
}


def render(
    tokenizer: Tokenizer, conversation: dict[str, Any], max_tokens: int | None = 2048
) -> tuple[list[int], list[int]]:
    """Token ids of a conversation and their mask (1: learned), both cut to `max_tokens`; None for no cut.

    A system message is put in front of the first user message, a blank line between. Raises ValueError for messages
    that are not by turns of user and assistant, or contents of an unknown form.
    """
    ids, mask = [tokenizer.bos], [0]

    def add(tokens: list[int], learned: int) -> None:
        ids.extend(tokens)
        mask.extend([learned] * len(tokens))

    for number, (role, content) in enumerate(_turns(conversation)):
        add([tokenizer.special(f"<|{role}_start|>")], 0)
        if role == "user":
            add(tokenizer.encode(content), 0)
            add([tokenizer.special("<|user_end|>")], 0)
            continue
        for kind, text in _parts(content, number):
            start, end, learned = _PARTS[kind]
            if start is not None:
                add([tokenizer.special(start)], learned)
            add(tokenizer.encode(text), learned)
            if end is not None:
                add([tokenizer.special(end)], learned)
        add([tokenizer.special("<|assistant_end|>")], 1)
    return ids[:max_tokens], mask[:max_tokens]


def render_prompt(tokenizer: Tokenizer, conversation: dict[str, Any]) -> list[int]:
    """Token ids that ask for the assistant's next message: all up to the last user message, then `<|assistant_start|>`.

    A last message of the assistant's is left out. Nothing is cut. Raises ValueError as `render`.
    """
    messages = conversation["messages"]
    if messages and messages[-1]["role"] == "assistant":
        messages = messages[:-1]
    ids, _ = render(tokenizer, {"messages": messages}, max_tokens=None)
    return [*ids, tokenizer.special("<|assistant_start|>")]


def _turns(conversation: dict[str, Any]) -> list[tuple[str, Any]]:
    """(role, content) by turns, the system message merged into the first."""
    turns = [(message["role"], message["content"]) for message in conversation["messages"]]
    if turns and turns[0][0] == "system":
        if len(turns) < 2 or turns[1][0] != "user":
            raise ValueError("a system message must be followed by the user's")
        turns = [("user", f"{turns[0][1]}\n\n{turns[1][1]}"), *turns[2:]]
    if not turns:
        raise ValueError("the conversation has no messages")
    for number, (role, content) in enumerate(turns):
        expected = ("user", "assistant")[number % 2]
        if role != expected:
            raise ValueError(f"turn {number} is of {role!r}, expected {expected!r}")
        if role == "user" and not isinstance(content, str):
            raise ValueError(f"turn {number} is of the user and must be text")
    return turns


def _parts(content: Any, number: int) -> list[tuple[str, str]]:
    if isinstance(content, str):
        return [("text", content)]
    if not isinstance(content, list):
        raise ValueError(f"turn {number} must be text or a list of parts, it is a {type(content).__name__}")
    for part in content:
        if part["type"] not in _PARTS:
            raise ValueError(f"turn {number} has a part of type {part['type']!r}; known are {', '.join(_PARTS)}")
    return [(part["type"], part["text"]) for part in content]
