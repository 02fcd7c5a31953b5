"""Seconds that Snakemake needs for the DAG of a large study, against a plain workflow of the same jobs, in one run.

    python benchmarks/dag.py [--cells 1000] [--shards 150] [--repeat 3]

The study has `--cells` cells that each read all of `--shards` shards and take every measurement. The plain workflow has
the same rules, files and dependencies, read from one JSON file by input functions of one line: what is above its time is
the price of this project's planning. Both are dry runs (`snakemake -n`), fresh and with everything done, interleaved.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

from xsa.study.project import Project

ROOT = Path(__file__).parents[1]
TOKENS_PER_SHARD = 1_000_000

PLAIN = """\
import json

INPUTS = json.load(open("inputs.json"))


wildcard_constraints:
    result=r"[A-Za-z0-9._-]+@[0-9a-f]{10}",


rule all:
    input:
        "results/page.html",


rule publish:
    input:
        INPUTS["page"],
    output:
        "results/page.html",
    shell:
        "true"
"""
RULE = """

rule {stage}:
    input:
        lambda wildcards: [ancient(path) for path in INPUTS["{stage}"][wildcards.result]],
    output:
        "results/{stage}/{{result}}/record.json",
    log:
        "results/.logs/{stage}/{{result}}.log",
    shell:
        "true"
"""


def study(cells: int, shards: int) -> dict:
    """A study of so many cells over so many shards: half at alpha 0, half at alpha 1, in small models."""
    steps = (shards - 1) * TOKENS_PER_SHARD // 4096
    return {
        "name": "large",
        "title": "A large study",
        "question": "How long does its DAG take?",
        "recipe": "demo",
        "shapes": {"d2": {"model": {"n_layer": 2, "n_embd": 64, "n_head": 2}}},
        "factors": {"xsa.alpha": [0, 1], "seed": list(range(cells // 2))},
        "baseline": {"xsa.alpha": 0},
        "settings": {
            "data": {"shards": shards, "tokens_per_shard": TOKENS_PER_SHARD},
            "horizon": {"steps": steps, "batch_tokens": 4096},
        },
    }


def prepare(folder: Path, cells: int, shards: int) -> tuple[Path, Path, int]:
    """The project's folder, the plain workflow's folder, and the number of their jobs."""
    ours, plain = folder / "ours", folder / "plain"
    for name in ("rules", "report", "profiles", "config"):
        shutil.copytree(ROOT / name, ours / name)
    shutil.copy(ROOT / "Snakefile", ours)
    for other in (ours / "config/studies").glob("*.yaml"):
        other.unlink()
    (ours / "config/studies/large.yaml").write_text(yaml.safe_dump(study(cells, shards), sort_keys=False))
    plan = Project(ours, Path("results")).plan("large")
    inputs: dict = {"page": f"results/report/{plan.report.key}/record.json"}
    for (stage, key), result in plan.results.items():
        upstream = [f"results/{one.stage}/{one.key}/record.json" for one in result.upstream()]
        inputs.setdefault(stage, {})[key] = upstream
    plain.mkdir()
    (plain / "inputs.json").write_text(json.dumps(inputs))
    rules = "".join(RULE.format(stage=stage) for stage in inputs if stage != "page")
    (plain / "Snakefile").write_text(PLAIN + rules)
    return ours, plain, len(plan.results)


def finish(folder: Path, inputs: Path) -> None:
    """Put a record at the place of every result, so that all is done."""
    for stage, results in json.loads(inputs.read_text()).items():
        for key in results if stage != "page" else ():
            record = folder / "results" / stage / key / "record.json"
            record.parent.mkdir(parents=True)
            record.write_text("{}")


def seconds(folder: Path, target: str) -> float:
    """Wall time of one dry run in `folder`. Raises CalledProcessError, with what Snakemake said, when it fails."""
    snakemake = Path(sys.executable).with_name("snakemake")
    started = time.perf_counter()
    done = subprocess.run(
        [snakemake, "-n", "-q", "all", "--cores", "2", "--directory", folder, "-s", folder / "Snakefile", target],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    took = time.perf_counter() - started
    if done.returncode:
        sys.exit(f"{folder.name}: {done.stderr or done.stdout}")
    return took


def compare(ours: Path, plain: Path, repeat: int) -> tuple[float, float, float]:
    """Median seconds of both workflows, and the median of the ratios of neighbouring runs."""
    pairs = []
    for turn in range(repeat):
        runs = [(ours, "results/large/report.html"), (plain, "results/page.html")]
        took = {folder.name: seconds(folder, target) for folder, target in (runs if turn % 2 == 0 else runs[::-1])}
        pairs.append((took["ours"], took["plain"]))
    a, b = (statistics.median(side) for side in zip(*pairs, strict=True))
    return a, b, statistics.median(x / y for x, y in pairs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cells", type=int, default=1000)
    parser.add_argument("--shards", type=int, default=150)
    parser.add_argument("--repeat", type=int, default=3, help="dry runs of each workflow")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        ours, plain, jobs = prepare(Path(name), options.cells, options.shards)
        print(f"{options.cells:,} cells, {options.shards} shards: {jobs:,} jobs")
        for state in ("fresh", "all done"):
            if state == "all done":
                for folder in (ours, plain):
                    finish(folder, plain / "inputs.json")
            a, b, ratio = compare(ours, plain, options.repeat)
            print(f"{state:<9} {a:6.1f} s, plain workflow {b:6.1f} s: ratio {ratio:.2f}")


if __name__ == "__main__":
    main()
