"""Fingerprints of the code that a stage can reach, so that a change of code is seen and a change of comment is not.

Reach: from the module of the stage's entry along every import of `xsa`, wherever it stands, without plumbing.
Fingerprint: syntax trees without comments, docstrings, formatting and positions, hashed function by function.
"""

from __future__ import annotations

import ast
import hashlib
from functools import cache
from pathlib import Path

from xsa.study.stages import STAGES

PACKAGE = "xsa"
SOURCE = Path(__file__).resolve().parent.parent


def functions_reached(stage: str, plumbing: tuple[str, ...], source: Path = SOURCE) -> dict[str, str]:
    """Hash of every function, class body and module body that `stage` can reach, by dotted name."""
    entry = STAGES[stage].entry.partition(":")[0]
    found: dict[str, str] = {}
    waiting, seen = _with_packages({entry}), set()
    while waiting:
        module = waiting.pop()
        if module in seen or is_plumbing(module, plumbing):
            continue
        seen.add(module)
        hashes, imports = _module(module, source)
        found.update(hashes)
        waiting.extend(imports)
    return dict(sorted(found.items()))


def fingerprint(functions: dict[str, str]) -> str:
    """One hash of all function hashes."""
    text = "\n".join(f"{name} {digest}" for name, digest in sorted(functions.items()))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def is_plumbing(module: str, plumbing: tuple[str, ...]) -> bool:
    """True for a module that the list names, itself or by `package.*`."""
    return any(module == name or (name.endswith(".*") and (module + ".").startswith(name[:-1])) for name in plumbing)


def module_path(module: str, source: Path = SOURCE) -> Path | None:
    """File of an `xsa` module; None when there is none."""
    parts = module.split(".")[1:]
    as_file = source.joinpath(*parts).with_suffix(".py") if parts else source / "__init__.py"
    as_package = source.joinpath(*parts) / "__init__.py"
    return next((path for path in (as_file, as_package) if path.is_file()), None)


@cache
def _module(module: str, source: Path) -> tuple[dict[str, str], tuple[str, ...]]:
    """Hashes by function, and the `xsa` modules imported, of one module."""
    path = module_path(module, source)
    assert path is not None, f"{module} is imported but has no file under {source}"
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    return _hashes(module, tree), tuple(sorted(_imports(module, path, tree, source)))


def _hashes(module: str, tree: ast.Module) -> dict[str, str]:
    targets = _import_targets(tree)
    texts: dict[str, str] = {}
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            continue
        defines = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        name = f"{module}.{node.name}" if defines else module
        # Several definitions of one name, as under singledispatch, count together.
        texts[name] = texts.get(name, "") + _text(node) + _uses(node, targets)
    return {name: _digest(text) for name, text in texts.items() if text}


def _import_targets(tree: ast.Module) -> dict[str, str]:
    """What each name that the module imports at its top stands for: `rows` -> `xsa.data.rows`."""
    targets = {}
    for node in tree.body:
        if isinstance(node, ast.Import):
            for alias in node.names:
                targets[alias.asname or alias.name.partition(".")[0]] = (
                    alias.name if alias.asname else alias.name.partition(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and node.module != "__future__":
            for alias in node.names:
                targets[alias.asname or alias.name] = f"{'.' * node.level}{node.module or ''}.{alias.name}"
    return targets


def _uses(node: ast.AST, targets: dict[str, str]) -> str:
    """The imported names that a piece of code uses, with what they stand for: another import is another code."""
    names = {found.id for found in ast.walk(node) if isinstance(found, ast.Name)}
    return "".join(f";{name}={targets[name]}" for name in sorted(names & targets.keys()))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _text(node: object) -> str:
    """A syntax tree as text: what it does, not where it stands; the same on every Python that can parse it."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return ""  # a docstring, or a string that does nothing
    if isinstance(node, ast.AST):
        fields = []
        for name, value in ast.iter_fields(node):
            # Absent and empty fields are left out: later Pythons add new ones.
            if value is None or value == [] or name in ("ctx", "type_comment", "kind"):
                continue
            text = _text(value)
            if text:
                fields.append(f"{name}={text}")
        return f"{type(node).__name__}({','.join(fields)})"
    if isinstance(node, list):
        texts = [text for text in map(_text, node) if text]
        return f"[{','.join(texts)}]" if texts else ""
    return repr(node)


def _imports(module: str, path: Path, tree: ast.Module, source: Path) -> set[str]:
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")
                base = ".".join([*above[: len(above) - node.level + 1], *([node.module] if node.module else [])])
            found.add(base)
            found.update(f"{base}.{alias.name}" for alias in node.names)
    named = {name for name in found if name == PACKAGE or name.startswith(PACKAGE + ".")}
    real = {name for name in named if module_path(name, source)}
    return set(_with_packages(real))


def _with_packages(modules: set[str]) -> list[str]:
    """Modules with the packages above them, which importing them runs."""
    above = {".".join(name.split(".")[:i]) for name in modules for i in range(1, name.count(".") + 1)}
    return sorted(modules | above)
