"""The figure of alpha: a line for each setting, points where the changes are, nothing where there is one alpha."""

from __future__ import annotations

import pandas as pd
import pytest

from tests.analyse.conftest import opened
from xsa.analyse.compare import metric_rows
from xsa.analyse.figure_doses import dose_rows, draw_doses
from xsa.analyse.style import figure_style


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    found = opened(tmp_path_factory.mktemp("doses"), shapes=1, seeds=2, alphas=(0.0, 0.5, 1.0))
    return found, metric_rows(found.results, found.grid)


def test_the_drawn_numbers_are_the_changes_at_each_alpha(three, tmp_path):
    found, metrics = three
    with figure_style():
        drawn = draw_doses(tmp_path, dose_rows(metrics, found.grid))
    numbers = pd.read_csv(tmp_path / "doses.csv")
    assert sorted(numbers["alpha"].unique()) == [0.5, 1.0] and set(numbers["series"]) == {"XSA"}
    assert set(numbers["metric"]) == {"bpb", "core", "chatcore", "cos_y_v"}
    for row in numbers.itertuples():
        (told,) = [one for one in metrics if (one["metric"], one["arm"]) == (row.metric, f"XSA α = {row.alpha:g}")]
        assert row.delta == pytest.approx(told["delta"])
    assert "Validation bpb: from −0." in drawn.caption and (tmp_path / "doses.svg").exists()


def test_a_study_of_one_alpha_above_zero_has_no_such_figure(study):
    assert dose_rows(metric_rows(study.results, study.grid), study.grid) == []
