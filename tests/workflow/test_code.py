"""What a change of the code runs again: on a finished study whose project has its own copy of the package."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.workflow.test_identity import PAGE, study

pytestmark = pytest.mark.workflow

MODEL_STAGES = {
    "imported",
    "imported_chat",
    "pretrain",
    "finetune",
    "bpb",
    "core",
    "chatcore",
    "attention",
    "overhead",
    "equivalence",
}


@pytest.fixture
def package(mini) -> Path:
    """The project's own copy of the package, in which code is changed."""
    return mini.with_own_code()


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert text.count(old) == 1, f"{path} has {old!r} {text.count(old)} times"
    path.write_text(text.replace(old, new))


def stale(mini) -> set[str]:
    """The stages that `xsa lock` shows as stale."""
    lines = mini.xsa("lock").stdout.splitlines()
    return {line.split()[0] for line in lines if "STALE" in line}


def test_the_package_installed_elsewhere_runs_nothing(mini, package):
    where = "import xsa; print(xsa.__file__)"
    told = subprocess.run([sys.executable, "-c", where], env=mini.environment(), capture_output=True, text=True)
    assert told.stdout.strip() == str(package / "__init__.py")
    assert mini.jobs() == {} and stale(mini) == set()


def test_comments_docstrings_and_formatting_of_the_model_run_nothing(mini, package):
    exclusive = package / "model" / "exclusive.py"
    edit(
        exclusive,
        '"""z = y − α · ⟨y,v⟩ / max(⟨v,v⟩, ε) · v',
        '"""In other words: z = y − α · ⟨y,v⟩ / max(⟨v,v⟩, ε) · v',
    )
    edit(
        exclusive,
        "    z = y - (alpha * share) * v\n",
        "    # The heart of it.\n    z = (\n        y - (alpha * share) * v\n    )\n",
    )
    assert mini.jobs() == {} and stale(mini) == set()


def test_the_projections_arithmetic_stops_before_the_first_job_and_names_the_function(mini, package):
    before = mini.state()
    edit(package / "model" / "exclusive.py", "y - (alpha * share) * v", "y - alpha * (share * v)")
    run = mini.snakemake()
    text = run.stdout + run.stderr
    assert run.returncode != 0 and "Traceback" not in text
    assert "pretrain: changed xsa.model.exclusive.remove_own_value" in text
    assert "xsa lock --retrain pretrain" in text and 'xsa lock --keep pretrain --why "…"' in text
    assert stale(mini) == MODEL_STAGES and mini.state() == before


def test_a_change_that_one_stage_reaches_concerns_that_stage_alone(mini, package):
    """Kept, it runs nothing; to be retrained, that stage and the page. Either way what is there stays as it is."""
    before = mini.state()
    edit(package / "evaluate" / "bpb.py", "\ndef bpb(job", "\nADDED = 1\n\n\ndef bpb(job")
    assert stale(mini) == {"bpb"}
    kept = mini.xsa("lock", "--keep", "bpb", "--why", "a constant that nothing uses")
    assert kept.returncode == 0, kept.stderr
    assert "a constant that nothing uses" in (mini.root / "config/stages.lock").read_text()
    assert mini.jobs() == {} and stale(mini) == set()
    assert mini.xsa("lock", "--retrain", "bpb").stdout.startswith("bpb: version")
    assert mini.jobs() == {"bpb": 2, **PAGE} and mini.state() == before


def test_a_retrained_stage_runs_with_all_that_reads_it(mini, package):
    assert mini.xsa("lock", "--retrain", "finetune").returncode == 0
    assert mini.jobs() == {"finetune": 2, "chatcore": 2, **PAGE}


def test_a_figures_code_runs_analysis_and_page(mini, package):
    edit(package / "analyse" / "style.py", "\nclass Colours", "\nADDED = 1\n\n\nclass Colours")
    assert mini.jobs() == PAGE and stale(mini) == set()


def test_the_pages_code_runs_the_page(mini, package):
    report = package / "report" / "report.py"
    report.write_text(report.read_text() + "\n\nADDED = 1\n")
    assert mini.jobs() == {"report": 1, "publish": 1}


def test_plumbing_runs_nothing(mini, package):
    for path in ("store/progress.py", "study/show.py", "cli.py"):
        (package / path).write_text((package / path).read_text() + "\n\nADDED = 1\n")
    assert mini.jobs() == {} and stale(mini) == set()


def test_a_new_option_at_its_default_runs_nothing_and_at_another_value_its_stage(mini, package):
    edit(
        package / "study" / "settings.py",
        "class CoreSettings(Settings):\n",
        "class CoreSettings(Settings):\n    extra: int = added(3)\n",
    )
    edit(
        package / "study" / "stages.py",
        "class CoreStage(Settings):\n",
        "class CoreStage(Settings):\n    extra: int = added(3)\n",
    )
    assert mini.jobs() == {}
    mini.write("config/studies/mini.yaml", study(settings={"core": {"extra": 3}}))
    assert mini.jobs() == {}
    mini.write("config/studies/mini.yaml", study(settings={"core": {"extra": 4}}))
    assert mini.jobs() == {"core": 2, **PAGE}


def test_only_what_a_study_runs_must_match_the_lock(mini, package):
    """A stage that the study has no use for may be stale."""
    mini.write("config/studies/mini.yaml", study(settings={"evaluate": {"chatcore": False}}))
    edit(package / "evaluate" / "chatcore.py", "\ndef chatcore(job", "\nADDED = 1\n\n\ndef chatcore(job")
    assert stale(mini) == {"chatcore"} and mini.jobs() == PAGE
