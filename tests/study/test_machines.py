"""What `auto` means, on which machine, and after results have been moved to another one."""

from __future__ import annotations

import copy

import pytest

from tests.study.conftest import RECIPE, STUDY
from xsa.store.errors import UserError
from xsa.study import resolve
from xsa.study.project import Project
from xsa.study.referenced import referenced


@pytest.fixture
def machine(monkeypatch):
    """`machine(cuda, compiler)`: what this machine has from now on."""

    def have(cuda: bool, compiler: bool = True) -> None:
        monkeypatch.setattr(resolve, "has_cuda", lambda: cuda)
        monkeypatch.setattr(resolve, "has_compiler", lambda: compiler)

    return have


@pytest.fixture
def auto(project):
    """The project with all that a machine can decide left to it."""
    recipe = copy.deepcopy(RECIPE)
    for section in ("precision", "overhead", "equivalence"):
        del recipe["settings"][section]
    project.recipe(recipe)
    return project


def trained(plan) -> list:
    return [result for (stage, _), result in plan.results.items() if stage == "pretrain"]


def make(project, result) -> None:
    """Put a record where the result belongs."""
    folder = result.folder(project.root / "results")
    folder.mkdir(parents=True)
    (folder / "record.json").write_text("{}")


def test_auto_is_decided_by_the_machine_while_nothing_was_made(auto, machine):
    machine(cuda=False)
    assert {result.settings.dtype for result in trained(auto.plan())} == {"float32"}
    machine(cuda=True)
    assert {result.settings.dtype for result in trained(auto.plan())} == {"bfloat16"}


@pytest.mark.parametrize("made_with", [(True, True), (False, True), (False, False)])
@pytest.mark.parametrize("planned_with", [(True, True), (False, True), (False, False)])
def test_auto_means_on_any_machine_what_it_meant_when_results_were_made(auto, machine, made_with, planned_with):
    machine(*made_with)
    plan = auto.plan()
    make(auto, trained(plan)[0])
    machine(*planned_with)
    assert auto.plan().results.keys() == plan.results.keys()


def test_a_device_that_is_measured_alone_is_kept_too(auto, machine):
    recipe = copy.deepcopy(RECIPE)
    del recipe["settings"]["overhead"]
    auto.recipe(recipe)
    machine(cuda=True)
    plan = auto.plan()
    for (stage, _), result in plan.results.items():
        if stage in ("pretrain", "overhead"):
            make(auto, result)
    machine(cuda=False)
    assert auto.plan().results.keys() == plan.results.keys()


def test_what_is_stated_is_the_same_on_every_machine(project, machine):
    machine(cuda=True)
    keys = project.plan().results.keys()
    machine(cuda=False, compiler=False)
    assert project.plan().results.keys() == keys


def test_results_of_any_machine_are_referred_to(auto, machine):
    machine(cuda=True)
    of_a_gpu = auto.plan().results.keys()
    machine(cuda=False, compiler=False)
    project = Project(auto.root, auto.root / "results")
    assert of_a_gpu <= referenced(project) and auto.plan().results.keys() <= referenced(project)


def test_a_study_that_cannot_be_planned_leaves_open_what_is_referred_to(project):
    project.study({**STUDY, "name": "broken", "recipe": "nowhere"})
    with pytest.raises(
        UserError, match=r"broken\.yaml cannot be planned, so nobody knows which results it needs.*nowhere"
    ):
        referenced(Project(project.root, project.root / "results"))


def test_a_study_that_is_passed_by_leaves_what_the_others_refer_to(project):
    project.study({**STUDY, "name": "broken", "recipe": "nowhere"})
    whole = Project(project.root, project.root / "results")
    assert referenced(whole, without=["broken"]) >= project.plan().results.keys()
    with pytest.raises(UserError, match="no study 'brokn' under config/studies to pass by; did you mean 'broken'"):
        referenced(whole, without=["brokn"])


def test_the_order_of_a_list_that_is_a_set_changes_no_digest(project):
    def digests(tasks, layers) -> set:
        settings = {"core": {"tasks": tasks}, "xsa": {"layers": layers}}
        project.study({**STUDY, "settings": settings})
        return project.plan().results.keys()

    assert digests(["b", "a", "b"], [1, 0]) == digests(["a", "b"], [0, 1]) != digests(["a"], [0, 1])
