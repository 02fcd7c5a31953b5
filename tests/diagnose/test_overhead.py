"""The stage `overhead`: interleaving, the ratio and its interval, and its files. Nothing here depends on a clock."""

import json

import numpy as np
import pandas as pd
import pytest
import torch

from xsa.diagnose.overhead import PHASES, interleave, ratio_of_medians, summarise
from xsa.diagnose.traffic import BUFFER_BYTES, copy_speed, moved_bytes
from xsa.study.stages import OverheadStage


def timer(name, calls, seconds):
    def time():
        calls.append(name)
        return dict.fromkeys(PHASES, seconds)

    return time


def test_arms_take_turns_and_swap_the_first_place():
    calls = []
    arms = {"baseline": timer("A", calls, 1.0), "xsa": timer("B", calls, 2.0)}
    frame = interleave(arms, repetitions=3, warmup=1)
    assert "".join(calls) == "ABBAABBA"
    assert len(frame) == 2 * 3 * len(PHASES)
    assert list(frame["repetition"].unique()) == [0, 1, 2]


def test_drift_of_the_machine_cancels_in_the_ratio():
    """Times grow twofold over the run, in both arms alike; the ratio is that of the arms."""
    drift = np.linspace(1, 2, 41)
    found = ratio_of_medians(drift, 1.05 * drift)
    assert found["ratio"] == pytest.approx(1.05)
    assert found["interval"] == pytest.approx([1.05, 1.05])
    assert found["excludes_one"] is True


def test_a_difference_within_the_spread_is_noise():
    rng = np.random.default_rng(0)
    found = ratio_of_medians(rng.normal(1, 0.05, 30), rng.normal(1.003, 0.05, 30))
    assert found["interval"][0] < 1 < found["interval"][1]
    assert found["excludes_one"] is False


def timed(baseline, xsa, again):
    """Times as the stage has them, the same in every phase."""
    arms = {"baseline": baseline, "xsa": xsa, "again": again}
    records = [
        (arm, "eager", phase, number, seconds)
        for arm, times in arms.items()
        for phase in PHASES
        for number, seconds in enumerate(times)
    ]
    return pd.DataFrame(records, columns=["arm", "mode", "phase", "repetition", "seconds"])


def test_a_ratio_no_farther_from_one_than_the_baseline_from_itself_is_noise():
    """2 % outside its own interval, but the baseline's second takes are 3 % slower than its first."""
    one = np.ones(20)
    found = summarise(timed(one, 1.02 * one, 1.03 * one), tokens=1)
    assert found["null"]["eager"]["step"]["ratio"] == pytest.approx(1.03)
    assert found["ratio"]["eager"]["step"]["excludes_one"] is True
    assert found["ratio"]["eager"]["step"]["exceeds_noise"] is False
    beyond = summarise(timed(one, 1.04 * one, 1.03 * one), tokens=1)
    assert beyond["ratio"]["eager"]["step"]["exceeds_noise"] is True


def test_the_baseline_is_timed_twice_around_the_arm():
    calls = []
    arms = {name: timer(name[0], calls, 1.0) for name in ("A", "B", "a")}
    interleave(arms, repetitions=2, warmup=1)
    assert "".join(calls) == "ABaaBAABa"


def test_bytes_moved_are_those_of_the_layers_that_project(config):
    """By hand: 2 rows of 32 tokens, 4 heads of 8 with 2 for values, 2 bytes each, in one of three layers."""
    y, v = 2 * 32 * 4 * 8 * 2, 2 * 32 * 2 * 8 * 2
    moved = moved_bytes(config(alpha=1.0, xsa_layers=(1,)), rows=2, itemsize=2)
    assert moved == {"forward": 2 * y + v, "backward": 3 * y + 2 * v}
    assert moved_bytes(config(alpha=0.0), 2, 2) == {"forward": 0, "backward": 0}


def test_a_copy_has_a_speed(monkeypatch):
    monkeypatch.setitem(BUFFER_BYTES, "cpu", 2**16)
    assert copy_speed(torch.device("cpu")) > 0


def test_the_summary_gives_tokens_per_second_of_the_median_step():
    arms = {"baseline": timer("A", [], 0.5), "xsa": timer("B", [], 0.25), "again": timer("A", [], 0.5)}
    found = summarise(interleave(arms, 3, 1).assign(mode="eager"), tokens=100)
    assert found["tokens_per_second"] == {"eager": {"baseline": 200.0, "xsa": 400.0}}
    assert found["ratio"]["eager"]["step"]["ratio"] == 0.5


def stage(config, **changes) -> OverheadStage:
    how = {"repetitions": 3, "warmup": 1, "batch_rows": 1, "device": "cpu", "dtype": "float32", "compile": False}
    return OverheadStage(model=config(alpha=1.0), **(how | changes))


def test_the_stage_writes_a_time_for_every_arm_phase_and_repetition(run_stage, config):
    folder = run_stage("overhead", stage(config))
    frame = pd.read_parquet(folder / "overhead.parquet")
    assert list(frame.columns) == ["arm", "mode", "phase", "repetition", "seconds"]
    assert len(frame) == 3 * 3 * 3
    assert (frame["seconds"] > 0).all()
    summary = json.loads((folder / "overhead.json").read_text())
    assert set(summary) == {"ratio", "null", "device", "tokens_per_second", "peak_bytes", "traffic"}
    assert summary["peak_bytes"] == {"eager": None}
    assert set(summary["traffic"]["seconds"]) == set(PHASES)
    assert summary["traffic"]["bytes"]["step"] == sum(summary["traffic"]["bytes"][name] for name in PHASES[1:])
    assert set(summary["ratio"]) == {"eager"}
    assert set(summary["ratio"]["eager"]) == set(PHASES)


def test_without_a_compiler_eager_steps_are_timed_and_the_record_says_so(run_stage, config, monkeypatch):
    monkeypatch.setattr("xsa.diagnose.overhead.compiler_fault", lambda device: "no C++ compiler")
    folder = run_stage("overhead", stage(config, compile=True))
    assert set(pd.read_parquet(folder / "overhead.parquet")["mode"]) == {"eager"}
    notes = json.loads((folder / "record.json").read_text())["made"]["notes"]
    assert (notes["compiled"], notes["why"]) == (False, "no C++ compiler")
