"""What counts as a change of a stage's code."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from xsa.study.fingerprint import _hashes, _imports, functions_reached, is_plumbing, module_path
from xsa.study.lock import StagesLock
from xsa.study.stages import STAGES

ROOT = Path(__file__).parents[2]


def hashes(text: str) -> dict[str, str]:
    return _hashes("m", ast.parse(text))


BASE = 'def f(x):\n    "says"\n    return x + 1\n\nLIMIT = 3\n'


@pytest.mark.parametrize(
    "same",
    [
        'def f(x):\n    "says more"\n    return x + 1\n\nLIMIT = 3\n',
        "# why\ndef f(x):\n    return (x\n            + 1)  # because\n\n\nLIMIT = 3\n",
        '"module"\nimport os\ndef f(x):\n    return x + 1\nLIMIT = 3\n',
    ],
)
def test_comments_docstrings_and_formatting_are_no_change(same):
    assert hashes(same) == hashes(BASE)


def test_a_changed_function_is_named():
    now = hashes(BASE.replace("+ 1", "+ 2"))
    assert {name for name in now if now[name] != hashes(BASE)[name]} == {"m.f"}


def test_a_changed_constant_is_the_modules():
    now = hashes(BASE.replace("= 3", "= 4"))
    assert {name for name in now if now[name] != hashes(BASE)[name]} == {"m"}


def test_imports_are_followed_wherever_they_stand(tmp_path):
    (tmp_path / "data").mkdir()
    for name in ("__init__.py", "data/__init__.py", "data/rows.py", "data/packing.py"):
        (tmp_path / name).write_text("")
    tree = ast.parse("from xsa.data import rows\ndef f():\n    from .packing import pack\n    import numpy\n")
    found = _imports("xsa.data.tokens", tmp_path / "data" / "tokens.py", tree, tmp_path)
    assert found == {"xsa", "xsa.data", "xsa.data.rows", "xsa.data.packing"}


def test_plumbing_is_left_out():
    assert is_plumbing("xsa.store.files", ("xsa.store.*",)) and is_plumbing("xsa.store", ("xsa.store.*",))
    assert not is_plumbing("xsa.storehouse", ("xsa.store.*",)) and not is_plumbing("xsa.data", ("xsa",))


def test_pretraining_reaches_the_projection_and_not_the_page():
    names = functions_reached("pretrain", StagesLock(ROOT).plumbing)
    assert "xsa.model.exclusive.remove_own_value" in names
    assert not any(name.startswith(("xsa.report", "xsa.analyse", "xsa.evaluate")) for name in names)


def test_the_committed_lock_matches_the_code():
    stale = StagesLock(ROOT).stale()
    assert not stale, "settle each with `xsa lock --retrain STAGE` or `xsa lock --keep STAGE --why …`: " + "; ".join(
        map(str, stale)
    )


def test_the_committed_lock_has_every_stage():
    from xsa.study.lock import CHEAP

    assert set(StagesLock(ROOT).stages) == set(STAGES) - set(CHEAP)


def test_plumbing_computes_nothing():
    """Modules that are left out of fingerprints import no library that could compute a result."""
    computing = {"numpy", "torch", "pandas", "scipy", "pyarrow", "tiktoken", "rustbpe", "random", "math", "statistics"}
    plumbing = StagesLock(ROOT).plumbing
    source = ROOT / "src" / "xsa"
    for path in source.rglob("*.py"):
        parts = path.relative_to(source.parent).with_suffix("").parts
        module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        if is_plumbing(module, plumbing):
            tree = ast.parse(path.read_text())
            roots = {
                alias.name.split(".")[0]
                for node in ast.walk(tree)
                if isinstance(node, ast.Import)
                for alias in node.names
            }
            roots |= {(node.module or "").split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
            assert not roots & computing, f"{module} is plumbing and imports {roots & computing}"
    assert module_path("xsa.study.architecture") and not is_plumbing("xsa.study.architecture", plumbing)


def test_another_import_under_the_same_name_is_a_change_of_the_functions_that_use_it():
    text = "from a import f as g\ndef uses():\n    return g()\ndef other():\n    return 1\n"
    now = hashes(text.replace("import f as g", "import h as g"))
    assert {name for name in now if now[name] != hashes(text)[name]} == {"m.uses"}


def test_an_import_that_nothing_uses_is_no_change():
    assert hashes("import os\n" + BASE) == hashes(BASE)


def test_two_definitions_of_one_name_both_count():
    text = "def _(x):\n    return 1\ndef _(x):\n    return 2\n"
    assert hashes(text.replace("return 1", "return 3")) != hashes(text)


def test_the_packages_above_the_entry_are_reached(tmp_path):
    (tmp_path / "data").mkdir()
    for name in ("__init__.py", "data/__init__.py", "data/tokens.py"):
        (tmp_path / name).write_text("LIMIT = 1\n")
    assert set(functions_reached("tokens", (), tmp_path)) == {"xsa", "xsa.data", "xsa.data.tokens"}
