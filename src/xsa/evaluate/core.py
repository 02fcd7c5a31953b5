"""Stage `core`: the CORE metric, the mean of centred accuracies over in-context learning tasks (DCLM, arXiv 2406.11794).

All task files are read and checked before the first item is scored. A task that is finished is kept in the job's state,
so that a run that was killed goes on with the next one.

`core.json` has, beside the metric and its tasks: `partial`, tasks whose file has fewer items than the published set;
`cropped` and `widened`, how many items of a task needed the rules of `xsa.evaluate.core_prompts`; `beyond`, how many are
longer than the context that the model was trained on; `max_per_task` and `max_tokens`, the limits on items and tokens.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq

from xsa.data.icl import Task, check_enough, choose_tasks, fewshot_indices, order_items, read_items, read_tasks
from xsa.data.tokenizer import Tokenizer
from xsa.evaluate.centred import TaskScore, aggregate, baseline_table, published_items
from xsa.evaluate.core_prompts import Prompt, render, to_prompt
from xsa.evaluate.naming import named_source
from xsa.evaluate.resume import kept_or_made
from xsa.evaluate.scoring import Pending, Score, launch, token_budget
from xsa.model.nanochat import NanoChat
from xsa.store.errors import UserError
from xsa.store.files import write_json
from xsa.store.job import Job
from xsa.study.stages import CoreStage
from xsa.train.checkpoint import load_for_evaluation

CHUNK = 256  # items whose prompts are in memory at one time
ITEMS = pa.schema(
    [
        ("task", pa.string()),
        ("item", pa.int64()),
        ("gold", pa.int64()),
        ("prediction", pa.int64()),
        ("correct", pa.bool_()),
        ("losses", pa.list_(pa.float64())),
    ]
)


def core(job: Job) -> dict:
    """Evaluate the checkpoint on the bundle's tasks; writes core.json and items.parquet.

    UserError for a malformed bundle (file, line, field), an unknown task, a task without a baseline, and too few items.
    """
    settings = job.settings
    path = job.file("bundle", "core.yaml")
    tasks = choose_tasks(read_tasks(path), settings.tasks, path)
    baselines = _baselines(job, tasks)
    items, smaller = _read_all(job, tasks)
    model, tokenizer, about = load_for_evaluation(job)
    total, before = sum(map(len, items.values())), 0
    outcomes: dict[str, dict] = {}
    for number, task in enumerate(tasks):
        chosen = items[task.label]
        make = partial(_evaluate, job, model, tokenizer, task, chosen, before, total)
        outcome = outcomes[task.label] = kept_or_made(job.state / f"{number:03d}.json", make)
        before += len(chosen)
        right = sum(row["correct"] for row in outcome["scores"])
        job.progress.say(f"{task.label}: {right} of {len(chosen)} right")
    scores = {
        task.label: TaskScore(
            len(items[task.label]), sum(row["correct"] for row in outcomes[task.label]["scores"]), baselines[task.label]
        )
        for task in tasks
    }
    source = named_source(about.stage, settings.max_per_task, smaller, tasks, read_tasks(path))
    summary = _summary(tasks, scores, outcomes, smaller, settings, model.config.max_tokens)
    write_json(job.out / "core.json", summary | {"source": source})
    pq.write_table(_table(tasks, items, outcomes), job.out / "items.parquet")
    return {"device": job.device, "items": total}


def evaluate_task(
    model: NanoChat, tokenizer: Tokenizer, task: Task, items: list[dict], budget: int, threads: int = 1
) -> Iterator[tuple[Prompt, Score]]:
    """Prompt and score of each of a task's items, which are in evaluation order; few are in memory at one time.

    UserError where a loss is not finite.
    """
    pending: Pending | None = None
    for start in range(0, len(items), CHUNK):
        indices = range(start, min(start + CHUNK, len(items)))
        prompts = make_prompts(tokenizer, task, items, indices, model.config.max_tokens, threads)
        ahead = launch(model, prompts, budget)
        # Only now wait for the chunk before: the device has work while these prompts are made.
        yield from _collected(task, pending)
        pending = ahead
    yield from _collected(task, pending)


def _collected(task: Task, pending: Pending | None) -> Iterator[tuple[Prompt, Score]]:
    scores = pending.collect() if pending else []
    for one in scores:
        if not all(map(math.isfinite, one.losses)):
            raise UserError(
                f"task {task.label}: the model's loss on item {one.index} (after the shuffle) is not finite; the "
                "checkpoint holds no usable weights. Look at its training log"
            )
    yield from zip(pending.prompts if pending else [], scores, strict=True)


def make_prompts(
    tokenizer: Tokenizer, task: Task, items: list[dict], indices: range, context: int, threads: int = 1
) -> list[Prompt]:
    """The prompts of the items at `indices`, their examples drawn from all `items`."""
    texts = []
    for index in indices:
        examples = [items[other] for other in fewshot_indices(index, len(items), task.num_fewshot)]
        texts.append(render(task, items[index], examples))
    ids = iter(tokenizer.encode_batch([text for group in texts for text in group], threads))
    return [
        to_prompt(task, index, items[index], [[tokenizer.bos, *next(ids)] for _ in group], context)
        for index, group in zip(indices, texts, strict=True)
    ]


def _baselines(job: Job, tasks: list[Task]) -> dict[str, float]:
    name = job.settings.baselines
    table, path = baseline_table(name, job.file("bundle", "eval_meta_data.csv") if name == "bundle" else None)
    missing = [task.label for task in tasks if task.label not in table]
    if missing:
        raise UserError(
            f"{path} has no baseline for {', '.join(missing)}; add a line for each, choose another table by core.baselines, "
            "or leave these tasks out of core.tasks"
        )
    return table


def _read_all(job: Job, tasks: list[Task]) -> tuple[dict[str, list[dict]], list[str]]:
    """Items of each task in evaluation order, and the labels of tasks with fewer than were published."""
    published, items, smaller = published_items(), {}, []
    for task in tasks:
        path = job.file("bundle", f"eval_data/{task.file}")
        rows = read_items(path, task.kind)
        if len(rows) < published.get(task.label, 0):
            smaller.append(task.label)
        items[task.label] = order_items(rows, job.settings.max_per_task)
        check_enough(task, len(items[task.label]), job.settings.max_per_task, path)
    return items, smaller


def _evaluate(
    job: Job, model: NanoChat, tokenizer: Tokenizer, task: Task, items: list[dict], before: int, total: int
) -> dict:
    """The task's scores as plain values, how many items needed a rule for rare cases, and how many were long."""
    budget = token_budget(model.config.sequence_len, job.run.micro_batch, job.device)
    scores, counts = [], Counter(beyond=0, cropped=0, widened=0)
    for prompt, one in evaluate_task(model, tokenizer, task, items, budget, job.run.threads):
        scores.append(asdict(one))
        beyond = max(prompt.ends) > model.config.sequence_len
        counts.update(beyond=beyond, cropped=prompt.cropped, widened=prompt.widened)
        job.progress.step(before + len(scores), total, unit="item", task=task.label)
    return {"scores": scores, **counts}


def _summary(
    tasks: list[Task],
    scores: dict[str, TaskScore],
    outcomes: dict[str, dict],
    smaller: list[str],
    settings: CoreStage,
    max_tokens: int,
) -> dict:
    whole = aggregate(scores)
    return {
        "core": whole["mean"],
        "standard_error": whole["standard_error"],
        "interval": whole["interval"],
        "baselines": settings.baselines,
        "max_per_task": settings.max_per_task,
        "max_tokens": max_tokens,
        "partial": smaller,
        **{
            rule: {label: outcome[rule] for label, outcome in outcomes.items() if outcome[rule]}
            for rule in ("beyond", "cropped", "widened")
        },
        "tasks": {
            task.label: {
                "kind": task.kind,
                "num_fewshot": task.num_fewshot,
                "items": scores[task.label].items,
                "accuracy": scores[task.label].accuracy,
                "centred": scores[task.label].centred,
                "standard_error": scores[task.label].standard_error,
                "baseline": scores[task.label].baseline,
            }
            for task in tasks
        },
    }


def _table(tasks: list[Task], items: dict[str, list[dict]], outcomes: dict[str, dict]) -> pa.Table:
    rows = [
        {
            "task": task.label,
            "item": row["index"],
            "gold": items[task.label][row["index"]].get("gold"),
            "prediction": row["prediction"],
            "correct": row["correct"],
            "losses": row["losses"],
        }
        for task in tasks
        for row in outcomes[task.label]["scores"]
    ]
    return pa.Table.from_pylist(rows, schema=ITEMS)
