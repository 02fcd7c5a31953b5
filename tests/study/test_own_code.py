"""A clone with code of its own is not run by another's unseen."""

from __future__ import annotations

import shutil

import pytest

from xsa.store.errors import UserError
from xsa.store.snapshot import PACKAGE
from xsa.study.own_code import check_own_code


@pytest.fixture
def clone(tmp_path):
    """A folder with a copy of the package that runs."""
    shutil.copytree(PACKAGE, tmp_path / "src" / "xsa", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def test_a_clone_of_the_same_code_and_a_folder_without_code_are_run(clone, tmp_path_factory):
    check_own_code(clone)
    check_own_code(tmp_path_factory.mktemp("none"))
    check_own_code(PACKAGE.parents[1])


def test_a_clone_that_was_edited_is_refused_with_the_file_and_what_to_do(clone):
    edited = clone / "src/xsa/model/exclusive.py"
    edited.write_text(edited.read_text() + "\n# edited\n")
    with pytest.raises(
        UserError, match=r"has other code \(model/exclusive.py\): activate this folder's own environment"
    ):
        check_own_code(clone)


def test_files_that_one_side_lacks_count_too(clone):
    (clone / "src/xsa/model/exclusive.py").unlink()
    (clone / "src/xsa/new.py").write_text("")
    with pytest.raises(UserError, match=r"\(model/exclusive.py, new.py\)"):
        check_own_code(clone)
