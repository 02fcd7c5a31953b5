"""One world's files, written once for all tests of this folder."""

from __future__ import annotations

import pytest

from xsa.data.world import write_bundle, write_chatsets

SEED, ITEMS = 5, 40


@pytest.fixture(scope="session")
def bundle(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bundle")
    write_bundle(folder, SEED, ITEMS)
    return folder


@pytest.fixture(scope="session")
def chatsets(tmp_path_factory):
    folder = tmp_path_factory.mktemp("chatsets")
    write_chatsets(folder, SEED, ITEMS)
    return folder
