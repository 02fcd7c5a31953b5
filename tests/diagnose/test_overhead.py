"""The stage `overhead`: interleaving, the ratio and its interval, and its files. Nothing here depends on a clock."""

import json

import numpy as np
import pandas as pd
import pytest

from xsa.diagnose.overhead import PHASES, interleave, ratio_of_medians, summarise
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
    assert found["exceeds_noise"] is True


def test_a_difference_within_the_spread_is_noise():
    rng = np.random.default_rng(0)
    found = ratio_of_medians(rng.normal(1, 0.05, 30), rng.normal(1.003, 0.05, 30))
    assert found["interval"][0] < 1 < found["interval"][1]
    assert found["exceeds_noise"] is False


def test_the_summary_gives_tokens_per_second_of_the_median_step():
    arms = {"baseline": timer("A", [], 0.5), "xsa": timer("B", [], 0.25)}
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
    assert len(frame) == 2 * 3 * 3
    assert (frame["seconds"] > 0).all()
    summary = json.loads((folder / "overhead.json").read_text())
    assert set(summary) == {"ratio", "device", "tokens_per_second"}
    assert set(summary["ratio"]) == {"eager"}
    assert set(summary["ratio"]["eager"]) == set(PHASES)


def test_without_a_compiler_eager_steps_are_timed_and_the_record_says_so(run_stage, config, monkeypatch):
    monkeypatch.setattr("xsa.diagnose.overhead.compiler_fault", lambda device: "no C++ compiler")
    folder = run_stage("overhead", stage(config, compile=True))
    assert set(pd.read_parquet(folder / "overhead.parquet")["mode"]) == {"eager"}
    notes = json.loads((folder / "record.json").read_text())["made"]["notes"]
    assert (notes["compiled"], notes["why"]) == (False, "no C++ compiler")
