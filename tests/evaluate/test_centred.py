import csv
import json
import math

import pytest

from xsa.evaluate.centred import TABLES, TaskScore, aggregate, baseline_table, centre, published_items, read_baselines
from xsa.store.errors import UserError

# Accuracies that nanochat published for OpenAI's GPT-2 models on the whole bundle, and the CORE it computed from them.
GPT2 = {
    "124M": (
        0.113891,
        "0.308504 0.001889 0.282663 0.412458 0.221843 0.600000 0.224406 0.622960 0.278000 0.322919 0.307907 "
        "0.578755 0.486188 0.155000 0.226087 0.419697 0.085714 0.031250 0.058278 0.133659 0.552294 0.256600",
    ),
    "1558M": (
        0.256525,
        "0.502000 0.092000 0.531000 0.595000 0.299000 0.670000 0.227000 0.725000 0.346000 0.523000 0.512000 "
        "0.714286 0.569000 0.247000 0.273913 0.417000 0.157143 0.093750 0.309000 0.280000 0.619000 0.250000",
    ),
}


def scores(accuracies: list[float], baselines: list[float]) -> dict[str, TaskScore]:
    million = 1_000_000
    return {
        str(place): TaskScore(million, round(accuracy * million), baseline)
        for place, (accuracy, baseline) in enumerate(zip(accuracies, baselines, strict=True))
    }


@pytest.mark.parametrize("model", GPT2)
def test_core_of_gpt2_is_the_published_number_under_v1(model):
    core, accuracies = GPT2[model]
    table, _ = baseline_table("v1", None)
    assert len(table) == 22
    result = aggregate(scores([float(word) for word in accuracies.split()], list(table.values())))
    assert result["mean"] == pytest.approx(core, abs=2e-6)


def test_v2_differs_from_v1_in_three_tasks():
    v1, v2 = (baseline_table(name, None)[0] for name in ("v1", "v2"))
    assert list(v1) == list(v2)
    assert {
        label: (round(100 * v1[label], 9), round(100 * v2[label], 9)) for label in v1 if v1[label] != v2[label]
    } == {
        "commonsense_qa": (20, 40.3),
        "agi_eval_lsat_ar": (20, 25),
        "bigbench_language_identification": (9.1, 25),
    }


def test_every_task_of_the_tables_has_a_published_size():
    assert set(baseline_table("v1", None)[0]) < set(published_items())
    assert published_items()["arc_challenge"] == 1172


def test_the_reference_accuracies_give_the_reference_metric(reference):
    summary = json.loads((reference("core") / "summary.json").read_text())
    table, _ = baseline_table("bundle", reference("core") / "bundle" / "eval_meta_data.csv")
    tasks = {label: TaskScore(one["n"], one["correct"], table[label]) for label, one in summary["tasks"].items()}
    for label, one in summary["tasks"].items():
        assert tasks[label].centred == pytest.approx(one["centered"], abs=1e-6)
    assert aggregate(tasks)["mean"] == pytest.approx(summary["core_metric"], abs=1e-6)


def test_the_standard_error_is_binomial_and_grows_with_the_centring():
    one = TaskScore(items=100, correct=40, baseline=0.25)
    assert one.centred == pytest.approx(0.2)
    assert one.standard_error == pytest.approx(math.sqrt(0.4 * 0.6 / 100) / 0.75)
    other = TaskScore(items=400, correct=100, baseline=0.0)
    both = aggregate({"one": one, "other": other})
    error = math.hypot(one.standard_error, other.standard_error) / 2
    assert both["standard_error"] == pytest.approx(error)
    assert both["interval"] == pytest.approx([0.225 - 1.959964 * error, 0.225 + 1.959964 * error])


def test_below_chance_stays_negative():
    assert centre(0.1, 0.25) == pytest.approx(-0.2)


def test_a_table_with_a_wrong_line_is_refused_by_file_and_line(tmp_path):
    path = tmp_path / "eval_meta_data.csv"
    for text, fault in (
        ("Eval Task,Random\na,25\n", "no column 'Random baseline'"),
        ("Eval Task,Random baseline\na,25\nb,\n", "line 3: Random baseline of b is ''"),
        ("Eval Task,Random baseline\na,100\n", "line 2"),
        ("Eval Task,Random baseline\na,nan\n", "line 2"),
    ):
        path.write_text(text)
        with pytest.raises(UserError, match=fault) as error:
            read_baselines(path, "Eval Task", "Random baseline")
        assert str(path) in str(error.value)


def test_a_percentage_is_read_as_a_share(tmp_path):
    path = tmp_path / "table.csv"
    with open(path, "w", newline="") as handle:
        csv.writer(handle).writerows([["Eval Task", "Random baseline"], ["a, b", "9.1"]])
    assert read_baselines(path, "Eval Task", "Random baseline") == {"a, b": pytest.approx(0.091)}


def test_a_named_table_that_was_edited_is_refused(tmp_path, monkeypatch):
    text = (TABLES / "v1.csv").read_text()
    (tmp_path / "v1.csv").write_text(text.replace("boolq,62", "boolq,50"))
    monkeypatch.setattr("xsa.evaluate.centred.TABLES", tmp_path)
    with pytest.raises(UserError, match=r"v1.csv was edited"):
        baseline_table("v1", None)
