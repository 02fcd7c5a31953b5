"""Fixtures for all tests: reference numbers, and a way to run one stage as the pipeline does."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from xsa.store.job import Job
from xsa.store.progress import Progress
from xsa.study.result import digest_of
from xsa.study.settings import RunSettings
from xsa.study.stages import STAGES

HERE = Path(__file__).parent


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
