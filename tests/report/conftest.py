"""An analysed study with known effects, made once, and ways to look at its page as a browser would."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import html5lib
import pytest
from matplotlib.figure import Figure
from tests.analyse.fabricate import fabricate

from xsa.analyse.analyse import analyse
from xsa.report.report import write_report


@pytest.fixture(scope="session")
def analysed(tmp_path_factory) -> Path:
    """Result of `analyse` for one shape, two seeds, and strings that attack HTML; not to be changed."""
    root = tmp_path_factory.mktemp("study") / "results"
    study = fabricate(root, shapes=1, seeds=2, hostile=True)
    job = study.job(root / "analyse" / "fabricated@0123456789")
    with pytest.MonkeyPatch.context() as patch:
        savefig = Figure.savefig
        patch.setattr(Figure, "savefig", lambda self, path, **kw: savefig(self, path, **kw) if _is_svg(path) else None)
        analyse(job)
    return job.out


def _is_svg(path) -> bool:
    return str(path).endswith(".svg")


@pytest.fixture
def changed(analysed, tmp_path):
    """`changed(edit)`: a copy of the analysis whose summary `edit` has changed in place."""

    def change(edit) -> Path:
        folder = tmp_path / "results" / "analyse" / analysed.name
        shutil.copytree(analysed, folder)
        summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
        edit(summary)
        (folder / "summary.json").write_text(json.dumps(summary), encoding="utf-8")
        return folder

    return change


@pytest.fixture(scope="session")
def page(analysed, tmp_path_factory) -> str:
    """The page's HTML."""
    return write_report(analysed, tmp_path_factory.mktemp("page")).read_text(encoding="utf-8")


@pytest.fixture(scope="session")
def parse():
    """`parse(html)`: its tree; fails on any error that the HTML standard names."""

    def strictly(html: str):
        return html5lib.HTMLParser(strict=True, namespaceHTMLElements=False).parse(html)

    return strictly


@pytest.fixture(scope="session")
def tree(page, parse):
    """The page as a browser reads it."""
    return parse(page)
