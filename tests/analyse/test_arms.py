"""Cells into arms, and each arm to its baseline."""

import pytest

from xsa.analyse.arms import read_grid
from xsa.study.stages import AnalyseStage


def grid(points, baseline=None, shape="d4"):
    """A grid of cells given as factor mappings."""
    cells = tuple(
        {"cell": f"cell{number}", "shape": point.pop("shape", shape), "factors": point, "settings": {}, "results": {}}
        for number, point in enumerate([dict(point) for point in points])
    )
    stage = AnalyseStage(
        study="s",
        title="t",
        question="q",
        factors={},
        baseline={"xsa.alpha": 0.0} if baseline is None else baseline,
        cells=cells,
    )
    return read_grid(stage)


def pairs(found):
    return [(one.baseline.label, one.arm.label, one.seeds) for one in found.comparisons]


def test_an_arm_is_the_cells_that_differ_in_seed_alone():
    found = grid([{"xsa.alpha": alpha, "seed": seed} for alpha in (0.0, 1.0) for seed in (0, 1, 2)])
    assert [(arm.label, arm.seeds) for arm in found.arms] == [("baseline", [0, 1, 2]), ("XSA α = 1", [0, 1, 2])]
    assert pairs(found) == [("baseline", "XSA α = 1", (0, 1, 2))]


def test_only_seeds_that_both_arms_have_are_paired():
    found = grid([{"xsa.alpha": 0.0, "seed": 0}, {"xsa.alpha": 1.0, "seed": 0}, {"xsa.alpha": 1.0, "seed": 1}])
    assert pairs(found) == [("baseline", "XSA α = 1", (0,))]


def test_whole_numbers_and_decimals_of_one_value_are_one():
    found = grid([{"xsa.alpha": 0, "seed": 0}, {"xsa.alpha": 1, "seed": 0}])
    assert pairs(found) == [("baseline", "XSA α = 1", (0,))]


def test_other_factors_must_be_equal():
    points = [
        {"optim.matrix": matrix, "xsa.alpha": alpha, "seed": 0} for matrix in ("muon", "adamw") for alpha in (0, 1)
    ]
    assert pairs(grid(points)) == [
        ("baseline, optimizer = muon", "optimizer = muon, XSA α = 1", (0,)),
        ("baseline, optimizer = adamw", "optimizer = adamw, XSA α = 1", (0,)),
    ]


def test_without_a_projection_its_layers_do_not_count():
    """The plan trains alpha = 0 once, whatever the layer sets of the study."""
    points = [{"xsa.alpha": 0.0, "xsa.layers": "all", "seed": 0}]
    points += [{"xsa.alpha": 1.0, "xsa.layers": layers, "seed": 0} for layers in ("all", "last:4", (0, 1))]
    assert pairs(grid(points)) == [
        ("baseline", f"XSA α = 1, XSA layers = {layers}", (0,)) for layers in ("all", "last:4", "0 1")
    ]


def test_shapes_are_never_compared_with_each_other():
    found = grid([{"shape": "d4", "xsa.alpha": 0.0, "seed": 0}, {"shape": "d8", "xsa.alpha": 1.0, "seed": 0}])
    assert pairs(found) == []
    assert [arm.label for arm in found.uncompared()] == ["XSA α = 1"]


def test_baselines_come_first_in_order_whatever_the_grid():
    found = grid([{"xsa.alpha": alpha, "seed": 0} for alpha in (1.0, 0.5, 0.0)])
    assert found.labels == ["baseline", "XSA α = 1", "XSA α = 0.5"]
    assert [arm.label for arm in found.arms_of("d4")] == found.labels


def test_two_cells_of_one_arm_and_seed_are_a_fault():
    with pytest.raises(AssertionError, match="have one seed"):
        grid([{"xsa.alpha": 0.0, "seed": 0}, {"xsa.alpha": 0.0, "seed": 0}])
