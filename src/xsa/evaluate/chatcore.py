"""Stage `chatcore`: a chat model's answers to questions, centred and averaged over tasks (nanochat's ChatCORE).

Categorical tasks: the answer is the likeliest of the allowed letters as the first token of the assistant's turn, of equal
ones the first letter; nothing is generated. Generated tasks: the likeliest token each time, with the calculator, up to
`max_new_tokens`; `truncated` counts answers that were cut there, `ended` how HumanEval's programs ended by kind. Items
are the first `max_per_task` in published order. Tasks and chance levels are a named table (`baselines`).

Prompts are never cut. One that is longer than the model's context runs beyond it, as in nanochat, and is counted in
`beyond_context`. `partial` has the tasks with fewer items than the published sets: items, published.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq
import torch

from xsa.data.chat import CategoricalItem, GeneratedItem, chat_items, final_answer
from xsa.data.conversation import render_prompt
from xsa.data.tokenizer import Tokenizer
from xsa.evaluate.centred import TaskScore, aggregate, chat_table, published_items
from xsa.evaluate.engine import answer_all
from xsa.evaluate.humaneval import graded_program
from xsa.evaluate.naming import named_source
from xsa.evaluate.resume import kept_or_made
from xsa.evaluate.sandbox import Limits, Sandbox
from xsa.evaluate.scoring import token_budget
from xsa.model.nanochat import NanoChat
from xsa.store.errors import UserError
from xsa.store.files import write_json
from xsa.store.job import Job
from xsa.train.checkpoint import load_for_evaluation

GENERATED = ("gsm8k", "humaneval", "spellingbee")
SAID_TOKENS = 4  # tokens that fit where one does in training or scoring, of which keys and values alone are kept
FILES = {"spellingbee": "spellingbee/words_alpha.txt"}
ITEMS = pa.schema(
    [
        ("task", pa.string()),
        ("item", pa.int64()),
        ("gold", pa.string()),
        ("prediction", pa.string()),
        ("correct", pa.bool_()),
        ("kind", pa.string()),
        ("detail", pa.string()),
        ("tokens", pa.int64()),
    ]
)


def chatcore(job: Job) -> dict:
    """Evaluate the fine-tuned checkpoint on the chat tasks; writes chatcore.json and items.parquet.

    A task that is finished is kept in the job's state. UserError for malformed sets (file and row) and where the sandbox
    does not work.
    """
    tasks = job.settings.tasks
    items, smaller = _read_all(job)
    sandbox = Sandbox(Limits(seconds=job.settings.sandbox_seconds)) if "humaneval" in tasks else None
    model, tokenizer, about = load_for_evaluation(job)
    outcomes, table = {}, chat_table(job.settings.baselines)
    for task in tasks:
        make = partial(_evaluate, job, model, tokenizer, sandbox, task, items[task])
        outcomes[task] = kept_or_made(job.state / f"{task}.json", make)
        right = sum(row["correct"] for row in outcomes[task]["rows"])
        job.progress.say(f"{task}: {right} of {len(items[task])} right")
    scores = {
        task: TaskScore(len(items[task]), sum(row["correct"] for row in outcomes[task]["rows"]), table[task])
        for task in tasks
    }
    source = named_source(about.stage, job.settings.max_per_task, smaller, tasks, table)
    write_json(job.out / "chatcore.json", _summary(scores, outcomes, smaller, source, job.settings))
    rows = [{"task": task} | row for task in tasks for row in outcomes[task]["rows"]]
    pq.write_table(pa.Table.from_pylist(rows, schema=ITEMS), job.out / "items.parquet")
    return {"device": job.device, "sandbox": sandbox.confinement if sandbox else None}


def _read_all(job: Job) -> tuple[dict[str, list], dict[str, dict[str, int]]]:
    """The items of each task that are asked, all rows checked, and the tasks whose sets are smaller than published."""
    published, items, smaller = published_items(), {}, {}
    for task in job.settings.tasks:
        job.file("chatsets", FILES.get(task, f"{task}/test.parquet"))
        rows = chat_items(task, job.folder("chatsets"), job.settings.spellingbee_items)
        if len(rows) < published[task]:
            smaller[task] = {"items": len(rows), "published": published[task]}
        asked = len(rows) if job.settings.max_per_task is None else min(job.settings.max_per_task, len(rows))
        items[task] = [rows[index] for index in range(asked)]
    return items, smaller


def _evaluate(
    job: Job, model: NanoChat, tokenizer: Tokenizer, sandbox: Sandbox | None, task: str, items: Sequence
) -> dict:
    prompts = [render_prompt(tokenizer, item.conversation) for item in items]
    budget = token_budget(model.config.sequence_len, job.run.micro_batch, job.device)

    def done(count: int) -> None:
        job.progress.step(count, len(items), unit="item", task=task)

    beyond = sum(len(prompt) > model.config.sequence_len for prompt in prompts)
    if task not in GENERATED:
        rows, truncated = choose_letters(model, tokenizer, items, prompts, budget, done), 0
    else:
        answers = answer_all(model, tokenizer, prompts, job.settings.max_new_tokens, SAID_TOKENS * budget, done)
        texts = [tokenizer.decode(answer.ids) for answer in answers]
        truncated = sum(answer.ended == "limit" for answer in answers)
        rows = grade(items, texts, [len(answer.ids) for answer in answers], sandbox, job.run.threads)
    return {"rows": rows, "truncated": truncated, "beyond_context": beyond}


@torch.no_grad()
def choose_letters(
    model: NanoChat,
    tokenizer: Tokenizer,
    items: Sequence[CategoricalItem],
    prompts: Sequence[Sequence[int]],
    budget: int,
    done: Callable[[int], None] = lambda count: None,
) -> list[dict]:
    """One row an item: the allowed letter with the highest logit at the prompt's last position. `tokens` is 1."""
    rows: list[dict] = [{} for _ in items]
    order = sorted(range(len(items)), key=lambda number: (-len(prompts[number]), number))
    device = next(model.parameters()).device
    at = 0
    while at < len(order):
        longest = len(prompts[order[at]])
        batch = order[at : at + max(1, budget // longest)]
        lengths = [len(prompts[number]) for number in batch]
        tokens_BT = torch.tensor(
            [[*prompts[number], *[0] * (longest - len(prompts[number]))] for number in batch], device=device
        )
        h_BTD = model.hidden(tokens_BT)
        logits_BV = model.logits(h_BTD[range(len(batch)), [length - 1 for length in lengths]]).cpu()
        for number, logits_V in zip(batch, logits_BV, strict=True):
            item = items[number]
            ids = [_one_token(tokenizer, letter, item) for letter in item.letters]
            letter = item.letters[int(logits_V[ids].argmax())]
            rows[number] = _row(
                number, item.gold, letter, letter == item.gold, "right" if letter == item.gold else "wrong", "", 1
            )
        at += len(batch)
        done(at)
    return rows


def grade(
    items: Sequence[GeneratedItem], texts: Sequence[str], tokens: Sequence[int], sandbox: Sandbox | None, workers: int
) -> list[dict]:
    """One row an item from the answers' texts: by the number after `#### `, or by running the program."""
    if items and items[0].check == "program":
        programs = [
            graded_program(text, item.program["prompt"], item.program["test"], item.program["entry_point"])
            for item, text in zip(items, texts, strict=True)
        ]
        outcomes = sandbox.run_all(programs, workers)
        results = [(text, one.passed, one.kind, one.detail) for text, one in zip(texts, outcomes, strict=True)]
    else:
        numbers = [final_answer(text) for text in texts]
        results = [
            (number or "", number == item.gold, "right" if number == item.gold else "wrong", _why(number))
            for item, number in zip(items, numbers, strict=True)
        ]
    return [
        _row(number, item.gold, *result, count)
        for number, (item, result, count) in enumerate(zip(items, results, tokens, strict=True))
    ]


def _why(number: str | None) -> str:
    return "" if number is not None else "no number after ####"


def _row(item: int, gold: str, prediction: str, correct: bool, kind: str, detail: str, tokens: int) -> dict:
    names = ("item", "gold", "prediction", "correct", "kind", "detail", "tokens")
    return dict(zip(names, (item, gold, prediction, correct, kind, detail, tokens), strict=True))


def _one_token(tokenizer: Tokenizer, letter: str, item: CategoricalItem) -> int:
    ids = tokenizer.encode(letter)
    if len(ids) != 1:
        raise UserError(
            f"item {item.id}: the answer {letter!r} is {len(ids)} tokens in this vocabulary, and a choice must be one; "
            "answers are to be single letters or digits"
        )
    return ids[0]


def _summary(
    scores: dict[str, TaskScore], outcomes: dict[str, dict], smaller: dict, source: dict[str, str], settings
) -> dict:
    whole = aggregate(scores)
    return {
        "chatcore": whole["mean"],
        "standard_error": whole["standard_error"],
        "interval": whole["interval"],
        "baselines": settings.baselines,
        "source": source,
        "max_per_task": settings.max_per_task,
        "max_new_tokens": settings.max_new_tokens,
        "partial": smaller,
        "tasks": {
            task: {
                "kind": "generated" if task in GENERATED else "categorical",
                "items": one.items,
                "accuracy": one.accuracy,
                "centred": one.centred,
                "baseline": one.baseline,
                "standard_error": one.standard_error,
                "truncated": outcomes[task]["truncated"],
                "beyond_context": outcomes[task]["beyond_context"],
                "ended": dict(Counter(row["kind"] for row in outcomes[task]["rows"])),
            }
            for task, one in scores.items()
        },
    }
