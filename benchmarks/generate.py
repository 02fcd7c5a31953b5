"""How many tokens a second a batch of greedy answers gives against one answer at a time, in one run, with the same ids.

    python benchmarks/generate.py [--against NANOCHAT] [--prompts 64] [--tokens 96] [--depth 4] [--width 256] [--device cpu]

Group by group of prompts, on the same weights, in turn: this package's engine with its batch full, the same engine with one
row, and with `--against` the `Engine` of a nanochat checkout, which also takes one prompt at a time. Prints tokens a second,
ratios, and how many answers differ.

Prompts are random ids of unequal length, weights are drawn at random. Time is processor time on a CPU (with one thread
other work on the machine does not count), wall time on a GPU.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path

import torch
from lively import lively_model

from xsa.evaluate.engine import Batch, Cached, Marks, Tool
from xsa.model.nanochat import NanoChat

Run = Callable[[list[list[int]]], list[list[int]]]  # from prompts to the ids of their answers


def main() -> None:
    args = arguments()
    torch.set_num_threads(args.threads)
    model = lively_model(
        args.vocab,
        args.context,
        args.depth,
        args.width,
        kv_heads=args.kv_heads,
        alpha=args.alpha,
        dtype=getattr(torch, args.dtype),
    ).to(args.device)
    rng = random.Random(5)
    prompts = [
        [rng.randrange(args.vocab - 16) for _ in range(rng.randint(args.shortest, args.longest))]
        for _ in range(args.prompts)
    ]
    marks = Marks(*range(args.vocab - 6, args.vocab))
    max_len = args.longest + args.tokens
    runs: dict[str, Run] = {
        "batched": engine(model, marks, args.rows, max_len, args.tokens),
        "one at a time": engine(model, marks, 1, max_len, args.tokens),
    }
    if args.against:
        runs["nanochat"] = nanochat_engine(args.against, model, marks, args.tokens)
    seconds, tokens, answers = {}, {}, {}
    for start in range(0, len(prompts), args.group):
        for name, run in runs.items():
            said, took = timed(run, prompts[start : start + args.group], args.device)
            seconds[name] = seconds.get(name, 0.0) + took
            tokens[name] = tokens.get(name, 0) + sum(map(len, said))
            answers[name] = [*answers.get(name, []), *said]
    fast = tokens["batched"] / seconds["batched"]
    for name in runs:
        rate = tokens[name] / seconds[name]
        differ = sum(a != b for a, b in zip(answers[name], answers["batched"], strict=True))
        print(
            f"{name:14}{tokens[name]:8} tokens{rate:10.1f} tokens/s   batched is {fast / rate:5.2f} times as fast   {differ} answers differ"
        )


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=Path, help="a checkout of nanochat")
    parser.add_argument("--prompts", type=int, default=64)
    parser.add_argument("--group", type=int, default=64, help="prompts handed over at once, each way in turn")
    parser.add_argument("--rows", type=int, default=32, help="rows of the batch")
    parser.add_argument("--tokens", type=int, default=96, help="longest answer")
    parser.add_argument("--shortest", type=int, default=40)
    parser.add_argument("--longest", type=int, default=240)
    parser.add_argument("--depth", type=int, default=4)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--kv-heads", type=int, help="key/value heads; as many as query heads if absent")
    parser.add_argument("--alpha", type=float, default=0.0)
    parser.add_argument("--context", type=int, default=2048)
    parser.add_argument("--vocab", type=int, default=32768)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    return parser.parse_args()


def timed(run: Run, prompts: list[list[int]], device: str) -> tuple[list[list[int]], float]:
    clock = time.process_time if device == "cpu" else time.perf_counter
    start = clock()
    said = run(prompts)  # ends with ids on the host, so a GPU has finished
    return said, clock() - start


def engine(model: NanoChat, marks: Marks, rows: int, max_len: int, limit: int) -> Run:
    tool = Tool(marks, lambda text: [1], lambda ids: "")

    def run(prompts: list[list[int]]) -> list[list[int]]:
        order = sorted(range(len(prompts)), key=lambda number: -len(prompts[number]))
        width = min(rows, len(prompts))
        batch = Batch(Cached(model, width, max_len), tool, [prompts[number] for number in order], width, limit)
        said = dict(zip(order, batch.answers(), strict=True))
        return [said[number].ids for number in range(len(prompts))]

    return run


def nanochat_engine(checkout: Path, model: NanoChat, marks: Marks, limit: int) -> Run:
    """nanochat's own engine on nanochat's own model with `model`'s weights."""
    sys.path.insert(0, str(checkout))
    # The engine's module wants this one for its own demonstration alone, and it wants packages that are not needed here.
    sys.modules["nanochat.checkpoint_manager"] = unused = types.ModuleType("nanochat.checkpoint_manager")
    unused.load_model = None
    from nanochat.engine import Engine
    from nanochat.gpt import GPT, GPTConfig

    fields = ("sequence_len", "vocab_size", "n_layer", "n_head", "n_kv_head", "n_embd", "window_pattern")
    theirs = GPT(GPTConfig(**{name: getattr(model.config, name) for name in fields}))
    theirs.load_state_dict(model.state_dict())
    theirs.eval().to(model.resid_lambdas.device)
    speaker = Engine(theirs, Specials(marks))

    def run(prompts: list[list[int]]) -> list[list[int]]:
        said = []
        for prompt in prompts:
            (ids,), _ = speaker.generate_batch(prompt, num_samples=1, max_tokens=limit, temperature=0.0)
            said.append(ids[len(prompt) :])
        return said

    return run


class Specials:
    """What nanochat's engine asks of a tokenizer."""

    def __init__(self, marks: Marks):
        self.marks = marks

    def encode_special(self, text: str) -> int:
        return getattr(self.marks, text.strip("<|>"))

    def get_bos_token_id(self) -> int:
        return self.marks.bos

    def encode(self, text: str) -> list[int]:
        return [1]

    def decode(self, ids: list[int]) -> str:
        return ""


if __name__ == "__main__":
    main()
