"""How much faster CORE is evaluated here than one item at a time, in one run, with the same predictions.

    python benchmarks/core.py --bundle FOLDER [--against NANOCHAT] [--items 32] [--tasks copa,piqa] [--depth 4] [--width 256]

Task by task, on the same weights and items, in turn: this package's evaluation, a plain loop (each item by itself, all
its options whole and padded, logits of every position), and with `--against` the `core_eval` of a nanochat checkout.
Prints seconds and ratios for each task and in all, and every item on which predictions differ.

The weights are random, with every matrix drawn, so that attention, options and losses differ; the tokenizer is trained on
the bundle's own text. All stages are counted: drawing examples, rendering, tokens, model, scores.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from lively import lively_model

from xsa.data.icl import Task, choose_tasks, order_items, read_items, read_tasks
from xsa.data.tokenizer import Tokenizer
from xsa.evaluate.core import evaluate_task, make_prompts
from xsa.evaluate.core_prompts import Prompt
from xsa.evaluate.scoring import token_budget
from xsa.model.nanochat import NanoChat

Outcome = tuple[int | None, bool]  # the option chosen (None where it is not told), and whether the item is right
Way = Callable[[NanoChat, Tokenizer, Task, list[dict]], list[Outcome]]


def main() -> None:
    args = arguments()
    torch.set_num_threads(args.threads)
    known = read_tasks(args.bundle / "core.yaml")
    tasks = choose_tasks(known, args.tasks.split(",") if args.tasks else "all", args.bundle / "core.yaml")
    files = {task.file: read_items(args.bundle / "eval_data" / task.file, task.kind) for task in tasks}
    tokenizer = trained_tokenizer(files.values(), args.vocab)
    model = lively_model(tokenizer.vocab_size, args.context, args.depth, args.width).to(args.device)
    ways = {"ours": ours(args), "plain": plain}
    if args.against is not None:
        ways["nanochat"] = nanochat(args.against, model)
    print(f"{'task':34}{'items':>6}" + "".join(f"{name + ' s':>12}{'ratio':>7}" for name in ways))
    total, differing = dict.fromkeys(ways, 0.0), 0
    for task in tasks:
        items = order_items(files[task.file], args.items or None)
        seconds, outcomes = {}, {}
        for name, way in ways.items():
            seconds[name], outcomes[name] = timed(
                lambda way=way, task=task, items=items: way(model, tokenizer, task, items)
            )
            total[name] += seconds[name]
        print(line(task.label, len(items), seconds), flush=True)
        differing += sum(report(name, outcomes["ours"], outcomes[name]) for name in ways if name != "ours")
    print(line("all", 0, total))
    print("predictions are identical" if not differing else f"{differing} predictions differ")


def line(label: str, items: int, seconds: dict[str, float]) -> str:
    numbers = "".join(f"{taken:12.2f}{taken / seconds['ours']:7.2f}" for taken in seconds.values())
    return f"{label:34}{items or '':>6}{numbers}"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bundle", type=Path, required=True, help="folder with core.yaml and eval_data/")
    parser.add_argument("--against", type=Path, help="a checkout of nanochat")
    parser.add_argument("--tasks", help="labels with commas between; all of the bundle's if absent")
    parser.add_argument("--items", type=int, default=32, help="items of each task, at least 11; 0 for all")
    parser.add_argument("--depth", type=int, default=4)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--context", type=int, default=2048)
    parser.add_argument("--vocab", type=int, default=32768)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    return parser.parse_args()


def timed(run: Callable[[], list[Outcome]]) -> tuple[float, list[Outcome]]:
    """Seconds of processor time on a CPU, so that what else runs there does not count; on a GPU, of the clock."""
    clock = time.perf_counter if torch.cuda.is_available() else time.process_time
    start = clock()
    outcomes = run()
    return clock() - start, outcomes


def trained_tokenizer(files, vocab: int) -> Tokenizer:
    values = (value for items in files for item in items for value in item.values())
    texts = (text for value in values for text in (value if isinstance(value, list) else [value]))
    return Tokenizer.train((text for text in texts if isinstance(text, str)), vocab)


def ours(args: argparse.Namespace) -> Way:
    budget = token_budget(args.context, None, args.device)

    def way(model: NanoChat, tokenizer: Tokenizer, task: Task, items: list[dict]) -> list[Outcome]:
        return [(score.prediction, score.correct) for _, score in evaluate_task(model, tokenizer, task, items, budget)]

    return way


def plain(model: NanoChat, tokenizer: Tokenizer, task: Task, items: list[dict]) -> list[Outcome]:
    """Each item by itself, all its options whole, and the logits of every position."""
    outcomes = []
    for index in range(len(items)):
        (prompt,) = make_prompts(tokenizer, task, items, range(index, index + 1), model.config.max_tokens)
        outcomes.append(plain_item(model, prompt))
    return outcomes


@torch.no_grad()
def plain_item(model: NanoChat, prompt: Prompt) -> Outcome:
    ids_BT = torch.zeros(len(prompt.options), max(prompt.ends), dtype=torch.long)
    for row, option in enumerate(prompt.options):
        ids_BT[row, : len(option)] = torch.tensor(option)
    ids_BT = ids_BT.to(model.resid_lambdas.device)
    logits_BTV = model(ids_BT)
    losses_BT = F.cross_entropy(logits_BTV[:, :-1].flatten(0, 1), ids_BT[:, 1:].flatten(), reduction="none")
    losses_BT = losses_BT.view(len(ids_BT), -1)
    spans = [slice(start - 1, end - 1) for start, end in zip(prompt.starts, prompt.ends, strict=True)]
    if prompt.gold is None:
        right = logits_BTV[0, spans[0]].argmax(-1) == ids_BT[0, prompt.starts[0] : prompt.ends[0]]
        return None, bool(right.all())
    means = [losses_BT[row, span].mean().item() for row, span in enumerate(spans)]
    choice = means.index(min(means))
    return choice, choice == prompt.gold


def nanochat(checkout: Path, model: NanoChat) -> Way:
    """nanochat's own evaluation of one item after the other, on nanochat's own model with the weights of `model`."""
    sys.path.insert(0, str(checkout))
    from nanochat.core_eval import evaluate_example
    from nanochat.gpt import GPT, GPTConfig

    fields = ("sequence_len", "vocab_size", "n_layer", "n_head", "n_kv_head", "n_embd", "window_pattern")
    theirs = GPT(GPTConfig(**{name: getattr(model.config, name) for name in fields}))
    theirs.load_state_dict(model.state_dict())
    device = model.resid_lambdas.device
    theirs.eval().to(device)

    def way(_: NanoChat, tokenizer: Tokenizer, task: Task, items: list[dict]) -> list[Outcome]:
        about = {"task_type": task.kind, "num_fewshot": task.num_fewshot, "continuation_delimiter": task.delimiter}
        encoder = Encoder(tokenizer)
        return [
            (None, bool(evaluate_example(index, theirs, encoder, items, device, about))) for index in range(len(items))
        ]

    return way


class Encoder:
    """Our tokenizer under the names that nanochat calls."""

    def __init__(self, tokenizer: Tokenizer):
        self.tokenizer = tokenizer

    def get_bos_token_id(self) -> int:
        return self.tokenizer.bos

    def __call__(self, texts: list[str], prepend: int) -> list[list[int]]:
        return [[prepend, *ids] for ids in self.tokenizer.encode_batch(texts, threads=8)]


def report(name: str, ours: list[Outcome], theirs: list[Outcome]) -> int:
    """How many items differ, each told in a line."""
    differing = 0
    for index, (one, other) in enumerate(zip(ours, theirs, strict=True)):
        if one[1] != other[1] or (other[0] is not None and one[0] != other[0]):
            print(f"  item {index}: ours {one}, {name} {other}")
            differing += 1
    return differing


if __name__ == "__main__":
    main()
