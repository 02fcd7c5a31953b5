"""The stage `report`: a study's page, with its tables and figures beside it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from xsa.analyse.tables import write_table
from xsa.report import provenance
from xsa.report.gaps import gaps
from xsa.report.markdown import SUMMARY, markdown
from xsa.report.page import TEMPLATE, render
from xsa.report.paper import PAPER, paper_tex
from xsa.report.reading import read_analysis
from xsa.report.verdicts import COLUMNS, judged
from xsa.store.errors import UserError
from xsa.store.files import write_text
from xsa.store.job import Job
from xsa.store.snapshot import frozen
from xsa.study.stages import ReportStage

PAGE = "report.html"
_BESIDE = ("tables", "figures")


def report(job: Job) -> dict[str, Any]:
    """Write report.html, paper.tex, summary.md, tables/ and figures/ of the analysis `analyse` into `job.out`."""
    page = write_report(job.input("analyse"), job.out, job.settings)
    job.progress.say(f"page of {page.stat().st_size / 1e6:.1f} MB")
    return {"bytes": page.stat().st_size}


def write_report(
    analysis: Path, study_folder: Path, settings: ReportStage | None = None, templates: Path | None = None
) -> Path:
    """Write the page of the analysed study in `analysis` to `study_folder`/report.html; return that path.

    settings: the claims that it is held against, its deviations and how to cite it; None for a page without.
    The verdicts lie in tables/claims.csv and .tex, all floats in paper.tex, a summary in summary.md. The tables and figures are copied beside it first; each file appears whole or not at all, the page last. Records of
    the study's other results are looked for in the results folder that `analysis` lies in; where one is missing, the
    page says so.
    """
    read = read_analysis(analysis)
    settings = settings or ReportStage(study=read.summary["study"], templates_sha256="")
    rows = judged(settings.claims, read.summary)
    page = render(read, templates or find_templates(), settings, rows)
    if rows:
        write_table(study_folder / "tables", "claims", rows, COLUMNS)
    for folder in _BESIDE:
        for path in sorted((analysis / folder).glob("*")):
            _copy(path, study_folder / folder / path.name)
    tables = sorted(path.stem for path in (study_folder / "tables").glob("*.tex"))
    write_text(study_folder / PAPER, paper_tex(read.summary, read.figures, tables))
    missing = gaps(read, provenance.cells(read))
    write_text(study_folder / SUMMARY, markdown(read.summary, rows, missing, f"results/{read.summary['study']}/{PAGE}"))
    write_text(study_folder / PAGE, page)
    return study_folder / PAGE


def find_templates() -> Path:
    """The folder `report/` of the project that is worked in, else of the clone that this package was installed from."""
    places = ((frozen() or Path.cwd()) / "report", Path(__file__).resolve().parents[3] / "report")
    for place in places:
        if (place / TEMPLATE).is_file():
            return place
    raise UserError(f"there is no {TEMPLATE} in {places[0]}; run from the project's folder")


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        shutil.copyfile(source, temporary)
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
