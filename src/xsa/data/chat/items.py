"""What a chat set gives: conversations to learn from, and items to be asked and graded.

A conversation is `{"messages": [{"role", "content"}, ...]}`; content is text or, for an assistant that uses the
Python tool, a list of parts `{"type": "text" | "python" | "python_output", "text": ...}`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Literal

Conversation = dict[str, Any]


@dataclass(frozen=True)
class CategoricalItem:
    """A question whose answer is one of `letters`; the model's choice is the likeliest of them at the last position.

    conversation: ends with the user's message.
    """

    id: str
    conversation: Conversation
    letters: tuple[str, ...]
    gold: str


@dataclass(frozen=True)
class GeneratedItem:
    """A question answered by free text.

    conversation: ends with the user's message.
    check: how an answer is graded. `number`: `final_answer(text) == gold`. `program`: the text is Python code that has
        to pass `program["test"]`, which calls `check(<program["entry_point"]>)`; `program["prompt"]` is the
        unfinished code that was asked about.
    gold: the right number, or the name of the function asked for.
    """

    id: str
    conversation: Conversation
    gold: str
    check: Literal["number", "program"]
    program: dict[str, str] = field(default_factory=dict)


def asked(question: str, answer: Any = None) -> Conversation:
    """A conversation of one question, with its answer when there is one."""
    messages = [{"role": "user", "content": question}]
    if answer is not None:
        messages.append({"role": "assistant", "content": answer})
    return {"messages": messages}


def multiple_choice(question: str, letters: tuple[str, ...], choices: list[str]) -> str:
    """The text of a multiple-choice question, in nanochat's form: each choice before its letter, `- choice=letter`.

    The letter comes directly after `=`, without a blank, so that it is the same token in the question and as an answer.
    """
    lines = "".join(f"- {choice}={letter}\n" for choice, letter in zip(choices, letters, strict=True))
    return f"Multiple Choice question: {question}\n{lines}\nRespond only with the letter of the correct answer."


_FINAL = re.compile(r"#### (-?[0-9.,]+)")


def final_answer(text: str) -> str | None:
    """The number after the first `#### `, without thousands separators; None when there is none (GSM8K's convention)."""
    found = _FINAL.search(text)
    return found.group(1).replace(",", "").strip() if found else None
