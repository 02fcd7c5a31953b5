"""The answer says what the numbers say: the direction, the size, whether it is noise, and how few seeds there are."""

from __future__ import annotations

import pytest

from xsa.analyse.statistics import INSIDE, OUTSIDE, ROUNDING, UNKNOWN
from xsa.report.answer import answer, improved
from xsa.report.comparisons import metric_tables


def row(shape="d12", arm="XSA α = 1", metric="bpb", delta=-0.0027, verdict=OUTSIDE, n_seeds=3, **over):
    names = {"bpb": ("Validation bpb", "lower"), "core": ("Base CORE", "higher"), "cos_y_v": ("Self-alignment", None)}
    name, better = names[metric]
    mean = 0.8484 if metric == "bpb" else 0.16
    return {
        "shape": shape, "arm": arm, "baseline_arm": "baseline", "metric": metric, "name": name, "better": better,
        "baseline_mean": mean, "arm_mean": mean + delta, "delta": delta, "relative_percent": 100 * delta / mean,
        "seed_deltas": [delta] * n_seeds, "difference_sd": None, "seed_lo": None, "seed_hi": None, "item_lo": None, "item_hi": None, "n_seeds": n_seeds, "verdict": verdict,
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
        == "Validation bpb changed by −0.0027 (−0.32 %) at d12 and −0.0022 (−0.26 %) at d24: both outside noise for the better."
    )


def test_a_loss_outside_noise_is_called_a_loss():
    assert "worse than the baseline at d12." in answer(study(row(delta=0.003)))[0]


@pytest.mark.parametrize("delta", [-0.0027, 0.0027])
def test_inside_noise_is_no_gain_whatever_its_sign(delta):
    told = " ".join(answer(study(row(delta=delta, verdict=INSIDE))))
    assert told.startswith("This study does not show whether XSA α = 1 predicts held-out text better or worse than")
    assert "neither" not in told and "no effect was shown in either direction" in told


def test_one_seed_never_gives_an_answer():
    told = " ".join(answer(study(row(verdict=UNKNOWN, n_seeds=1))))
    assert "cannot be told from one seed" in told and "not to be told from noise by one seed" in told
    assert "better than the baseline" not in told and "a second seed would begin to tell" in told


def test_a_mixed_picture_is_counted():
    told = answer(study(row(), row(shape="d24", delta=0.001), row(shape="d30", verdict=INSIDE)))
    assert "of 3 changes" in told[0] and "1 is for the better, 1 for the worse and 1 not outside noise" in told[0]
    assert "outside noise for the better at d12, outside noise for the worse at d24, inside noise at d30" in told[1]


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
    assert "over 6 comparisons, 6 of them outside noise (6 for the better)" in told
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
    assert answer(study()) == [
        "Nothing can be compared yet: there is no seed of which both an arm and its baseline were measured."
    ]


def test_a_difference_of_float_rounding_is_no_change_for_better_or_worse():
    told = " ".join(answer(study(row(delta=1.6e-8, verdict=ROUNDING))))
    assert told.startswith(
        "XSA α = 1 and the baseline predict held-out text alike at d12: there is no difference beyond"
    )
    assert "+1.6 × 10⁻⁸" in told and "0.0000" not in told and "0.00 %" not in told
    assert "for the worse" not in told and "none is outside noise" in told


def test_a_small_change_outside_noise_is_never_shown_as_zero():
    told = " ".join(answer(study(row(delta=-2.4e-5))))
    assert "changed by −2.4 × 10⁻⁵ (−2.8 × 10⁻³ %)" in told or "changed by −2.4 × 10⁻⁵ (−0.0028 %)" in told
    assert "0.0000" not in told


def test_seeds_that_agree_inside_noise_are_told_as_such():
    wide = {"verdict": INSIDE, "seed_lo": -0.02, "seed_hi": 0.01}
    told = " ".join(answer(study(row(n_seeds=2, **wide))))
    assert "At d12 both seeds improved; two seeds are too few here for an interval that excludes zero." in told
    apart = " ".join(answer(study(row(n_seeds=2, seed_deltas=[-0.009, 0.0036], **wide))))
    assert "both seeds" not in apart
    narrow = row(n_seeds=3, verdict=INSIDE, seed_lo=-0.004, seed_hi=-0.001)
    assert "all 3 seeds improved; the interval over validation rows holds zero" in " ".join(answer(study(narrow)))


def test_the_answer_counts_what_was_judged_and_names_what_is_outside_noise_with_its_direction():
    told = " ".join(
        answer(
            study(
                row(verdict=INSIDE),
                row(metric="core", delta=-0.05),
                row(metric="cos_y_v", delta=0.2),
                row(metric="cos_y_v", shape="d24", delta=0.2, verdict=INSIDE),
            )
        )
    )
    assert (
        "Of 4 changes of metrics that were judged, 2 are outside noise: none for the better, 1 for the worse (Base CORE "
        "at d12) and 1 where no direction is better (Self-alignment at d12, higher)." in told
    )
    assert "outside noise for the worse." in told


def test_the_least_effect_that_few_seeds_can_show_is_told_in_deviations_of_the_difference():
    told = " ".join(answer(study(row(n_seeds=2))))
    assert "with 2 seeds a change must exceed 9.0 standard deviations of its paired differences" in told


def test_self_alignment_is_judged_like_every_other_metric():
    cosine = {"metric": "cos_y_v", "delta": 0.2}
    assert "at d12: outside noise." in answer(study(row(), row(**cosine)))[-3]
    told = " ".join(answer(study(row(), row(**cosine, verdict=INSIDE), row(**cosine, shape="d24"))))
    assert "to 0.360 at d24: inside noise at d12, outside noise at d24." in told


def test_many_changes_outside_noise_are_named_by_their_metrics():
    rows = [row(metric="cos_y_v", delta=0.2, shape=f"d{n}") for n in range(5)]
    assert "5 where no direction is better (Self-alignment, all higher)." in " ".join(answer(study(*rows)))
