"""The chat sets of the made-up world, in the published sets' files and columns."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from xsa.data.world import facts, lessons, lexicon, tasks
from xsa.data.world.problems import draw_problem
from xsa.data.world.programs import draw_program
from xsa.data.world.talks import draw_identity, draw_talk
from xsa.data.world.world import World, make_world, stream
from xsa.store.files import write_text

Row = dict[str, Any]

# Rows to learn from for each row that is asked.
TRAINING = 8

_TEXT = pa.string()
_ARC = pa.schema(
    {
        "id": _TEXT,
        "question": _TEXT,
        "choices": pa.struct({"text": pa.list_(_TEXT), "label": pa.list_(_TEXT)}),
        "answerKey": _TEXT,
    }.items()
)
_MMLU = pa.schema({"question": _TEXT, "subject": _TEXT, "choices": pa.list_(_TEXT), "answer": pa.int64()}.items())
_GSM8K = pa.schema({"question": _TEXT, "answer": _TEXT}.items())
_HUMANEVAL = pa.schema(dict.fromkeys(("task_id", "prompt", "canonical_solution", "test", "entry_point"), _TEXT).items())
_SMOLTALK = pa.schema({"messages": pa.list_(pa.struct({"content": _TEXT, "role": _TEXT})), "source": _TEXT}.items())


def write_chatsets(folder: Path, seed: int, items: int) -> None:
    """Write every chat set about the world of `seed`: `items` rows to be asked, and some times as many to learn from.

    A row that is asked is never among those to learn from. A set is smaller where the world does not hold so many
    different rows.
    """
    folder, world = Path(folder), make_world(seed)

    def draw(name: str, make: Callable[[World, Random], Row], sizes: dict[str, int], schema: pa.Schema) -> None:
        rows = _different(lambda rng: make(world, rng), stream("chat", seed, name), sizes)
        for split, drawn in rows.items():
            _write(folder / name / f"{split}.parquet", drawn, schema)

    learnt = TRAINING * items
    draw("arc_easy", _easy, {"test": items}, _ARC)
    draw("arc_challenge", _challenge, {"test": items}, _ARC)
    draw("mmlu", _mmlu, {"test": items, "auxiliary_train": learnt}, _MMLU)
    draw("gsm8k", _gsm8k, {"test": items, "train": learnt}, _GSM8K)
    draw("humaneval", _humaneval, {"test": items}, _HUMANEVAL)
    draw("smoltalk", _smoltalk, {"test": items, "train": learnt}, _SMOLTALK)
    rng = stream("chat", seed, "identity")
    lines = [json.dumps(draw_identity(world, rng)) + "\n" for _ in range(items)]
    write_text(folder / "identity" / "identity_conversations.jsonl", "".join(lines))
    write_text(folder / "spellingbee" / "words_alpha.txt", "".join(f"{word}\r\n" for word in _words(world)))


def _different(make: Callable[[Random], Row], rng: Random, sizes: dict[str, int]) -> dict[str, list[Row]]:
    """Rows for each split, no two of them alike, the first split served first."""
    seen: set[str] = set()
    splits: dict[str, list[Row]] = {}
    for split, size in sizes.items():
        splits[split] = []
        for _ in range(20 * size):
            if len(splits[split]) == size:
                break
            row = make(rng)
            key = json.dumps({name: value for name, value in row.items() if name != "id"})
            if key not in seen:
                seen.add(key)
                splits[split].append(row)
    return splits


def _write(path: Path, rows: list[Row], schema: pa.Schema) -> None:
    for index, row in enumerate(rows):
        for name in {"id", "task_id"} & row.keys():
            row[name] = row[name].format(index=index)
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), path, compression="zstd")


def _arc(name: str, question: str, drawn: list[str], gold: int) -> Row:
    labels = list(lessons.LETTERS)
    choices = {"text": drawn, "label": labels}
    return {"id": name + "_{index:04d}", "question": question, "choices": choices, "answerKey": labels[gold]}


def _easy(world: World, rng: Random) -> Row:
    """Questions as the school of this world asks them."""
    return _arc("easy", *lessons.choice_question(rng, world))


def _challenge(world: World, rng: Random) -> Row:
    """Sentences to be finished: in wordings that the prose never uses, or in two steps."""
    draw = rng.choice((tasks.people_cloze, tasks.places_cloze, tasks.friends))
    _, item = draw(world, rng)
    return _arc("challenge", f"{item['query']} what?", item["choices"], item["gold"])


def _mmlu(world: World, rng: Random) -> Row:
    subject = rng.choice(("crafts_and_animals", "people", "villages"))
    if subject == "crafts_and_animals":
        question, drawn, gold = lessons.choice_question(rng, world, general=1)
    else:
        of, kind = facts.draw_fact(rng, world, facts.PERSON_KINDS if subject == "people" else facts.PLACE_KINDS)
        question, (drawn, gold) = facts.question(rng, world, of, kind), facts.choices(rng, world, of, kind)
    return {"question": question, "subject": subject, "choices": drawn, "answer": gold}


def _gsm8k(world: World, rng: Random) -> Row:
    question, answer = draw_problem(world, rng)
    return {"question": question, "answer": answer}


def _humaneval(world: World, rng: Random) -> Row:
    program = draw_program(world, rng)
    return {
        "task_id": "World/{index}",
        "prompt": program.prompt,
        "canonical_solution": program.solution,
        "test": program.test,
        "entry_point": program.name,
    }


def _smoltalk(world: World, rng: Random) -> Row:
    return {"messages": draw_talk(world, rng), "source": "world"}


def _words(world: World) -> list[str]:
    """Short words of the world in alphabetical order, lower-case letters only."""
    of_crafts = [word for craft in world.crafts for word in (craft.name, craft.tool, craft.product)]
    kinds = [animal.kind for animal in world.animals]
    words = {*lexicon.SPELLING, *of_crafts, *kinds, *world.colours, *world.fruits}
    return sorted(word for word in words if word.isalpha() and len(word) <= 7)
