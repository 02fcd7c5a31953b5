"""The command line: what it lists, and how it says no."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from xsa.cli import VERBS, main
from xsa.study.stages import STAGES

ROOT = Path(__file__).parents[1]


@pytest.fixture
def xsa(monkeypatch, tmp_path):
    """Run `xsa` in the repository with results elsewhere."""
    monkeypatch.chdir(ROOT)

    def run(*arguments: str):
        return CliRunner().invoke(main, arguments)

    return run


def test_help_lists_the_stages_in_the_order_of_the_flow(xsa):
    text = xsa("--help").output
    places = [text.index(f"\n  {stage} ") for stage in STAGES]
    assert places == sorted(places)


@pytest.mark.parametrize("verb", [*STAGES, *VERBS])
def test_every_verb_explains_itself(xsa, verb):
    shown = xsa(verb, "--help")
    assert shown.exit_code == 0 and len(shown.output.splitlines()) > 5


def test_cells_prints_every_cell_and_its_results(xsa, tmp_path):
    shown = xsa("cells", "demo", "--results", str(tmp_path))
    assert shown.exit_code == 0, shown.output
    assert shown.output.count("pretrain ") == 8 and "· pretrain" in shown.output


def test_cells_as_json_holds_all_settings(xsa, tmp_path):
    import json

    cells = json.loads(xsa("cells", "demo", "--json", "--results", str(tmp_path)).output)["cells"]
    assert len(cells) == 8 and cells[0]["settings"]["schedule"]["warmdown_ratio"] == 0.65


def test_an_error_of_the_user_is_one_sentence_and_exit_code_two(xsa):
    shown = xsa("cells", "dmeo")
    assert shown.exit_code == 2 and "did you mean 'demo'?" in shown.output and "Traceback" not in shown.output


def test_an_unknown_result_names_the_nearest(xsa, tmp_path):
    shown = xsa("pretrain", "demo", "d2w64h2-muon-a0-s7", "--results", str(tmp_path))
    assert shown.exit_code == 2 and "did you mean 'd2w64h2-muon-a0-s" in shown.output


def test_keep_without_a_reason_is_refused(xsa):
    shown = xsa("lock", "--keep", "pretrain")
    assert shown.exit_code == 2 and "--why" in shown.output


def test_a_stage_is_not_kept_and_made_again_at_once(xsa):
    before = (ROOT / "config/stages.lock").read_bytes()
    shown = xsa("lock", "--keep", "bpb", "--retrain", "bpb", "--why", "both")
    assert shown.exit_code == 2 and "give one of --keep and --retrain" in shown.output
    assert (ROOT / "config/stages.lock").read_bytes() == before


def test_a_name_longer_than_a_file_can_have_is_an_error_in_a_sentence(xsa, tmp_path):
    shown = xsa("show", f"bpb/{'x' * 5000}", "--results", str(tmp_path))
    assert shown.exit_code == 2 and "so long a name" in shown.output


def test_a_verb_that_is_misspelt_names_the_nearest(xsa):
    shown = xsa("doctr")
    assert shown.exit_code == 2 and "there is no verb 'doctr'; did you mean 'doctor'?" in shown.output


def test_the_lock_is_shown_and_checked(xsa):
    shown = xsa("lock", "--check")
    assert shown.exit_code == 0 and re.search(r"^pretrain +v1 ", shown.output, re.M)


def test_outside_a_project_it_says_so(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    shown = CliRunner().invoke(main, ["cells", "demo"])
    assert shown.exit_code == 2 and "run this from the project's folder" in shown.output
