"""What holds for the whole repository: order of imports, sizes, pins, two commands."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "xsa"
ORDER = ["data", "model", "optim", "train", "evaluate", "diagnose", "analyse", "report"]
ANYWHERE = {"study", "store"}
TORCH_FREE = {"study", "store", "data", "analyse", "report"}


def imports(path: Path) -> set[str]:
    """Modules that a file imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return found


@pytest.mark.parametrize("package", [*ORDER, *sorted(ANYWHERE)])
def test_a_package_imports_only_from_those_before_it(package):
    allowed = ANYWHERE | (set(ORDER[: ORDER.index(package) + 1]) if package in ORDER else set())
    for path in (SOURCE / package).rglob("*.py"):
        used = {name.split(".")[1] for name in imports(path) if name.startswith("xsa.")}
        assert used <= allowed, f"{path.relative_to(ROOT)} imports from {sorted(used - allowed)}"


@pytest.mark.parametrize("package", sorted(TORCH_FREE))
def test_what_runs_on_a_laptop_does_not_import_torch(package):
    for path in (SOURCE / package).rglob("*.py"):
        assert "torch" not in {name.split(".")[0] for name in imports(path)}, path


def test_no_file_says_nothing_by_its_name_or_is_too_long():
    for path in SOURCE.rglob("*.py"):
        assert not re.fullmatch(r"(utils?|helpers?|common|misc)\.py", path.name), path
        assert len(path.read_text(encoding="utf-8").splitlines()) <= 320, path


def pins() -> dict[str, str]:
    lines = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    return dict(line.lower().replace("_", "-").split("==") for line in lines if line and not line.startswith("#"))


def test_every_dependency_is_pinned_to_a_version_that_the_project_allows():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pinned = pins()
    for text in [*project["dependencies"], *project["optional-dependencies"]["dev"]]:
        requirement = Requirement(text)
        version = pinned[requirement.name.lower().replace("_", "-")]
        assert requirement.specifier.contains(version), f"{requirement} and {version}"


def test_every_import_of_the_package_is_a_stated_dependency():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    stated = {Requirement(text).name.replace("-", "_").lower() for text in project["dependencies"]} | {"yaml"}
    import sys

    for path in SOURCE.rglob("*.py"):
        roots = {name.split(".")[0].lower() for name in imports(path)} - set(sys.stdlib_module_names) - {"xsa"}
        unstated = roots - stated - {"pydantic_core", "markupsafe"}  # the cores of pydantic and jinja2
        assert not unstated, f"{path.relative_to(ROOT)} imports {unstated}"


def test_conda_installs_the_same_lock():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
    (pip,) = [item["pip"] for item in environment["dependencies"] if isinstance(item, dict)]
    assert any("requirements.lock" in line for line in pip)


def test_the_readme_is_short_and_names_the_two_commands_and_the_clusters():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) < 150
    for command in ("make demo", "make test", "snakemake --profile slurm results/report.html"):
        assert command in text


def test_every_link_of_the_documents_leads_somewhere():
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8")):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_ci_runs_the_readmes_test_command():
    assert "make test" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
