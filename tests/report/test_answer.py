"""The answer says what the numbers say: the direction, the size, whether it is noise, and how few seeds there are."""

from __future__ import annotations

import pytest

from xsa.report.answer import answer, improved
from xsa.report.comparisons import metric_tables

OUTSIDE, INSIDE, UNKNOWN = "outside noise", "inside noise", "one seed: cannot tell"


def row(shape="d12", arm="XSA α = 1", metric="bpb", delta=-0.0027, verdict=OUTSIDE, n_seeds=3, **over):
    names = {"bpb": ("Validation bpb", "lower"), "core": ("Base CORE", "higher"), "cos_y_v": ("Self-alignment", None)}
    name, better = names[metric]
    mean = 0.8484 if metric == "bpb" else 0.16
    return {
        "shape": shape, "arm": arm, "baseline_arm": "baseline", "metric": metric, "name": name, "better": better,
        "baseline_mean": mean, "arm_mean": mean + delta, "delta": delta, "relative_percent": 100 * delta / mean,
        "seed_lo": None, "seed_hi": None, "item_lo": None, "item_hi": None, "n_seeds": n_seeds, "verdict": verdict,
    } | over  # fmt: skip


def study(*metrics, arms=("XSA α = 1",), **over):
    empty = {name: [] for name in ("overhead", "stability", "streams", "tasks")}
    labels = [{"label": "baseline", "is_baseline": True}] + [{"label": arm, "is_baseline": False} for arm in arms]
    return {"metrics": list(metrics), "arms": labels, "shapes": ["d12", "d24"]} | empty | over


def test_a_gain_outside_noise_at_both_shapes_is_called_a_gain_with_its_size():
    told = answer(study(row(), row(shape="d24", delta=-0.0022)))
    assert told[0] == "XSA α = 1 predicts held-out text better than the baseline at both shapes."
    assert (
        told[1]
        == "Validation bpb changed by −0.0027 (−0.32 %) at d12 and −0.0022 (−0.26 %) at d24: both outside noise."
    )


def test_a_loss_outside_noise_is_called_a_loss():
    assert "worse than the baseline at d12." in answer(study(row(delta=0.003)))[0]


@pytest.mark.parametrize("delta", [-0.0027, 0.0027])
def test_inside_noise_is_no_gain_whatever_its_sign(delta):
    told = " ".join(answer(study(row(delta=delta, verdict=INSIDE))))
    assert "neither better nor worse" in told and "no effect was shown in either direction" in told


def test_one_seed_never_gives_an_answer():
    told = " ".join(answer(study(row(verdict=UNKNOWN, n_seeds=1))))
    assert "cannot be told from one seed" in told and "not to be told from noise by one seed" in told
    assert "better than the baseline" not in told and "a second seed would begin to tell" in told


def test_a_mixed_picture_is_counted():
    told = answer(study(row(), row(shape="d24", delta=0.001), row(shape="d30", verdict=INSIDE)))
    assert "of 3 changes" in told[0] and "1 is for the better, 1 for the worse and 1 no more than noise" in told[0]
    assert "outside noise at d12 and d24, inside noise at d30" in told[1]


def test_a_higher_core_is_better_and_a_lower_one_worse():
    assert improved(row(metric="core", delta=0.01)) is True
    assert improved(row(metric="core", delta=-0.01)) is False
    assert improved(row(metric="cos_y_v", delta=-0.1)) is None


def test_a_verdict_is_told_in_words_as_well_as_colour():
    summary = study(row(), row(metric="core", delta=-0.01, verdict=OUTSIDE), row(metric="cos_y_v", delta=-0.1))
    table = metric_tables(summary, ("bpb", "core", "cos_y_v"))[0]
    assert [group["first"]["words"] for group in table["groups"]] == [
        "outside noise, better",
        "outside noise, worse",
        "outside noise",
    ]


def test_many_comparisons_are_summed_up_and_arms_named():
    arms = ("XSA α = 0.5", "XSA α = 1")
    rows = [row(shape=shape, arm=arm) for shape in ("d12", "d24", "d30") for arm in arms]
    told = " ".join(answer(study(*rows, arms=arms)))
    assert "The exclusive arms predict held-out text better" in told
    assert "over 6 comparisons, 6 of them outside noise" in told
    few = " ".join(answer(study(*[row(arm=arm) for arm in arms], arms=arms)))
    assert "at d12 with XSA α = 0.5" in few


def test_training_that_broke_and_rows_that_differ_are_told():
    summary = study(
        row(),
        stability=[{"cell": "a", "finite": False}],
        streams=[{"shape": "d12", "equal": False, "hashes": {}}],
    )
    told = " ".join(answer(summary))
    assert "Training was not stable: a logged" in told and "did not all read the same training rows" in told


def test_overhead_is_that_of_compiled_steps_where_there_are_some():
    def timing(mode, ratio, beyond):
        return {"phase": "step", "mode": mode, "ratio": ratio, "exceeds_noise": beyond, "device": "H100"}

    both = [timing("compiled", 1.012, False), timing("eager", 1.06, True)]
    assert "by +1.2 % (compiled, on H100), inside noise" in " ".join(answer(study(row(), overhead=both)))
    assert "by +6.0 % (eager, on H100), more than noise" in " ".join(answer(study(row(), overhead=both[1:])))


def test_a_study_without_comparisons_says_so():
    assert answer(study()) == ["Nothing has been compared yet: no arm of this study has a baseline to be held against."]
