"""From an item and its examples to token ids and the span that is scored; nanochat's CORE prompts, exactly.

A prompt is the examples, each followed by a blank line, then the item. Contexts of language modelling are stripped of
surrounding whitespace, nothing else is. BOS comes first. What is scored:

    multiple_choice     one prompt a choice; from the common token prefix of all to each one's end
    schema              one prompt a context; the common token suffix of all
    language_modeling   the tokens that the continuation adds to the prompt without it

Rules for the rare cases, each held by a test:

- Empty span. Where a choice's tokens are a prefix of another's (about 4 of piqa's items), or the options share no suffix,
  nothing is left to score. Then the span of every option begins one token earlier, which all options have. nanochat
  takes the mean of an empty span there, NaN, which wins if it is the first choice and never otherwise.
- Too long. An option of more tokens than the model can read (`ModelConfig.max_tokens`) loses those on its left, BOS
  included, and its span moves with it; the item counts as cropped. Of a continuation that is longer still, the end is
  scored, from its second token on. This is nanochat's rule for models with a limit, where the same is NaN or an error.
- A tokenizer may join the last token of a prompt with the continuation. The span then begins where the two first differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xsa.data.icl import Task
from xsa.store.errors import UserError


@dataclass(frozen=True)
class Prompt:
    """An item ready to be scored: token ids of each option, and the span [start, end) of each whose loss counts.

    `gold` is None for language modelling. `cropped` and `widened` say that the rules above were needed.
    """

    index: int
    options: tuple[tuple[int, ...], ...]
    starts: tuple[int, ...]
    ends: tuple[int, ...]
    gold: int | None
    cropped: bool = False
    widened: bool = False


def render(task: Task, item: dict[str, Any], examples: Sequence[dict[str, Any]]) -> list[str]:
    """The item's prompts as text: one an option; for language modelling without the continuation, then with it."""
    if task.kind == "multiple_choice":
        shots = [f"{row['query']}{task.delimiter}{row['choices'][row['gold']]}\n\n" for row in examples]
        ends = [f"{item['query']}{task.delimiter}{choice}" for choice in item["choices"]]
    elif task.kind == "schema":
        shots = [f"{row['context_options'][row['gold']]}{task.delimiter}{row['continuation']}\n\n" for row in examples]
        ends = [f"{context}{task.delimiter}{item['continuation']}" for context in item["context_options"]]
    else:
        shots = [f"{row['context'].strip()}{task.delimiter}{row['continuation']}\n\n" for row in examples]
        question = f"{item['context'].strip()}{task.delimiter}"
        without = "".join([*shots, question]).strip()  # else a trailing blank would be a token of its own
        return [without, "".join([*shots, question, item["continuation"]])]
    return ["".join([*shots, end]) for end in ends]


def to_prompt(task: Task, index: int, item: dict[str, Any], ids: Sequence[Sequence[int]], context: int) -> Prompt:
    """The prompt of item `index` from the token ids (BOS in front) of its rendered texts, cut to `context` tokens."""
    widened = False
    if task.kind == "language_modeling":
        without, options = ids[0], [ids[1]]
        starts = [common_prefix([without, ids[1]])]
    elif task.kind == "multiple_choice":
        options = list(ids)
        prefix = common_prefix(options)
        start = min(prefix, min(map(len, options)) - 1)
        widened, starts = start < prefix, [start] * len(options)
    else:
        options = list(ids)
        suffix = common_prefix([option[::-1] for option in options])
        length = min(max(suffix, 1), min(map(len, options)) - 1)
        widened, starts = suffix == 0, [len(option) - length for option in options]
    gold = item.get("gold") if task.kind != "language_modeling" else None
    if min(map(len, options)) < 2:
        raise UserError(
            f"task {task.label}, item {index} after the shuffle: an option is empty text, so nothing can be scored"
        )
    options, starts, cropped = _crop(options, starts, context)
    return Prompt(index, options, starts, tuple(map(len, options)), gold, cropped, widened)


def _crop(options: Sequence[Sequence[int]], starts: Sequence[int], context: int) -> tuple:
    """The last `context` tokens of each option, its span's start there, and whether anything was cut."""
    cuts = [max(0, len(option) - context) for option in options]
    starts = tuple(max(1, start - cut) for start, cut in zip(starts, cuts, strict=True))
    options = tuple(tuple(option[cut:]) for option, cut in zip(options, cuts, strict=True))
    return options, starts, any(cuts)


def common_prefix(sequences: Sequence[Sequence[int]]) -> int:
    """How many leading tokens all sequences share."""
    first, last = min(sequences), max(sequences)  # in lexical order, so all others share what these two share
    for position, (one, other) in enumerate(zip(first, last, strict=False)):
        if one != other:
            return position
    return min(len(first), len(last))
