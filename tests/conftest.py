"""Fixtures for all tests: reference numbers, a way to run one stage as the pipeline does, and what all workers share."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from xsa.store.job import Job
from xsa.store.progress import Progress
from xsa.study.result import digest_of
from xsa.study.settings import RunSettings
from xsa.study.stages import STAGES

HERE = Path(__file__).parent
# Folders whose files take longest. They come first, so that no worker is left with one of them when others are done.
LONGEST = ("workflow", "report", "train")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order by folder: what takes longest first."""
    places = {name: place for place, name in enumerate(LONGEST)}

    def place(item: pytest.Item) -> int:
        return min((places[part] for part in item.path.relative_to(HERE).parts if part in places), default=len(places))

    items.sort(key=place)


@pytest.fixture(scope="session")
def made_once(tmp_path_factory) -> Callable[[str, Callable[[Path], None]], Path]:
    """`made_once(name, make)`: a folder that `make(folder)` fills, in whichever worker asks first; not to be changed."""
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent

    def ask(name: str, make: Callable[[Path], None]) -> Path:
        folder, part = shared / name, shared / f"{name}.part"
        with open(shared / f"{name}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not folder.exists():
                shutil.rmtree(part, ignore_errors=True)
                part.mkdir()
                make(part)
                part.rename(folder)
        return folder

    return ask


@pytest.fixture(scope="session")
def reference():
    """`reference("model")` is the folder of reference numbers, the committed part or the set that XSA_REFERENCE names."""

    def folder(name: str) -> Path:
        root = Path(os.environ.get("XSA_REFERENCE", HERE / "reference"))
        if not (root / name).is_dir():
            pytest.skip(f"no reference numbers at {root / name}; set XSA_REFERENCE to a folder that has them")
        return root / name

    return folder


@pytest.fixture(scope="session")
def published_sets():
    """`published_sets("chat")`: a folder of real sets, from the folder `data` beside the one that XSA_REFERENCE names."""

    def folder(name: str) -> Path:
        root = Path(os.environ["XSA_REFERENCE"]).parent / "data" if "XSA_REFERENCE" in os.environ else None
        if root is None or not (root / name).is_dir():
            pytest.skip(f"no real sets here; set XSA_REFERENCE to a folder that has data/{name} beside it")
        return root / name

    return folder


@pytest.fixture
def run_stage(tmp_path):
    """Run one stage to a finished result and return its folder: `run_stage("rows", settings, tokens=folder, ...)`."""
    from xsa.store.produce import produce

    count = 0

    def run(stage: str, settings, *, run: RunSettings | None = None, source=None, device="cpu", **inputs) -> Path:
        nonlocal count
        count += 1
        assert isinstance(settings, STAGES[stage].settings)
        recipe = {"stage": stage, "settings": settings.model_dump(mode="json"), "run": count}
        digest = digest_of(recipe)
        job = Job(
            stage=stage,
            label="test",
            settings=settings,
            inputs=inputs,
            out=tmp_path / "results" / stage / f"test@{digest}",
            state=tmp_path / "results" / ".state" / stage / f"test@{digest}",
            run=run or RunSettings(),
            device=device,
            source=source or {},
            progress=Progress(),
        )
        return produce(job, recipe=recipe, digest=digest, code="")

    return run
