"""Fabricated studies, read once for all tests that only look."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import pytest

from tests.analyse.fabricate import fabricate
from xsa.analyse.arms import read_grid
from xsa.analyse.results import Results


def opened(root, **kwargs):
    """A fabricated study under `root` with its grid and results."""
    study = fabricate(root / "results", **kwargs)
    return SimpleNamespace(
        study=study, grid=read_grid(study.settings), results=Results(study.job(root / "out")), root=root
    )


@pytest.fixture(scope="session")
def study(tmp_path_factory):
    """Two shapes, two arms, three seeds; not to be changed."""
    return opened(tmp_path_factory.mktemp("study"), seeds=3)


@pytest.fixture
def small(tmp_path):
    """`small(**kwargs)`: a new study of one shape and one seed, to be changed at will."""
    count = itertools.count()
    return lambda **kwargs: opened(tmp_path / str(next(count)), **({"shapes": 1, "seeds": 1} | kwargs))
