"""The page: what the analysis says, handed to the templates, as one HTML document that needs nothing beside it."""

from __future__ import annotations

import base64
import hashlib
import traceback
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, TemplateError
from markupsafe import Markup

from xsa.report import numbers, provenance
from xsa.report.adopted import adopted_sentence
from xsa.report.answer import answer, seed_counts, treatment, warnings
from xsa.report.citation import cited
from xsa.report.comparisons import BESIDE, MAIN, MECHANISM, metric_tables, task_tables
from xsa.report.forecasts import forecasts
from xsa.report.gaps import gaps, stage_name
from xsa.report.reading import Analysis
from xsa.report.svg import inline_svg
from xsa.report.verdicts import tally, verdict_files
from xsa.report.whisker import HEIGHT, WIDTH
from xsa.store.errors import UserError
from xsa.study.stages import ReportStage

TEMPLATE, STYLE, SCRIPT = "template.html.j2", "style.css", "script.js"
# The colours that figures are drawn in, and the style sheet's names for them.
COLOURS = {
    "#ffffff": "var(--paper)",
    "#808080": "var(--plot-quiet)",
    "#0072b2": "var(--arm-1)",
    "#d55e00": "var(--arm-2)",
    "#009e73": "var(--arm-3)",
    "#cc79a7": "var(--arm-4)",
    "#e69f00": "var(--arm-5)",
    "#56b4e9": "var(--arm-6)",
}
# The order of the page. Those in `_ASKED_FOR` stand where a study has what they tell.
SECTIONS = (
    ("verdicts", "Verdicts"),
    ("words", "In words"),
    ("claims", "Results by claim"),
    ("results", "All changes"),
    ("loss", "Loss curves"),
    ("mechanism", "Mechanism"),
    ("overhead", "Overhead"),
    ("equivalence", "Equivalence at α = 0"),
    ("asked", "What this run was"),
    ("cells", "Cells"),
    ("provenance", "What it was made of"),
    ("deviations", "What deviates from the paper"),
    ("missing", "What is missing"),
    ("cite", "How to cite"),
    ("again", "How to run it again"),
    ("notes", "Notes"),
)
_ASKED_FOR = {
    "verdicts": lambda settings: settings.claims,
    "words": lambda settings: settings.claims,
    "claims": lambda settings: settings.claims,
    "deviations": lambda settings: settings.deviations,
    "cite": lambda settings: settings.citation,
}
# Which figures stand in which section, in order; a figure that is not named stands at the end of the results. The headline figure,
# the first of `_HEADLINES` that was drawn, stands before the claims, and the others, or all where there are no claims, in the results.
_HEADLINES = ("doses", "differences")
_PLACES = {
    "words": (),
    "results": (*_HEADLINES, "core_tasks", "chatcore_tasks"),
    "loss": ("loss", "loss_difference", "validation_bpb", "validation_difference", "conventions"),
    "mechanism": ("alignment", "alignment_positions", "diagonal", "looks", "looks_positions", "alignment_training"),
    "overhead": ("overhead",),
}
_FILTERS = [
    "fixed",
    "signed",
    "change",
    "percent_change",
    "percent",
    "interval",
    "percent_interval",
    "probability",
    "significant",
    "count",
    "amount",
    "seconds",
    "size",
    "setting",
    "counted",
    "opening",
    "unbroken",
    "listed",
]


def render(analysis: Analysis, templates: Path, settings: ReportStage, rows: list[dict[str, Any]]) -> str:
    """The HTML of a study's page, from the templates, style sheet and script in `templates`.

    settings: what the page is told besides the analysis; `rows`: its claims as `verdicts.judged` gives them.
    """
    environment = Environment(
        loader=FileSystemLoader(templates),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {name: getattr(numbers, name) for name in _FILTERS} | {"stage": stage_name}
    style, script = (_embedded(templates / name) for name in (STYLE, SCRIPT))
    try:
        return environment.get_template(TEMPLATE).render(
            context(analysis, settings, rows), style=style, script=script, script_hash=_hash(script)
        )
    except TemplateError as error:
        raise UserError(f"{_place(error, templates)}: the page's template failed ({error}); mend it there") from error


def _place(error: TemplateError, templates: Path) -> str:
    """File and line of the template that an error comes from."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(str(templates))]
    file = getattr(error, "filename", None) or (frames[-1].filename if frames else templates / TEMPLATE)
    line = getattr(error, "lineno", None) or (frames[-1].lineno if frames else 1)
    return f"{file}, line {line}"


def context(analysis: Analysis, settings: ReportStage, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Everything that the templates may name."""
    summary = analysis.summary
    cells = provenance.cells(analysis)
    return {
        "s": summary,
        "sections": [one for one in SECTIONS if _ASKED_FOR.get(one[0], lambda settings: True)(settings)],
        "answer": [numbers.unbroken(sentence) for sentence in answer(summary)],
        "tally": tally(rows),
        "warnings": warnings(summary),
        "verdict_files": verdict_files(settings.claims, rows, cells),
        "deviations": settings.deviations,
        "citation": cited(settings.citation),
        "run_dates": provenance.run_dates(analysis),
        "treatment": treatment(summary),
        "made_up": analysis.made_up,
        "data_kinds": sorted(analysis.data_kinds),
        "seed_counts": seed_counts(summary),
        "baseline_words": numbers.listed(
            [f"{name}\u00a0=\u00a0{numbers.setting(value)}" for name, value in summary["baseline"].items()]
        ),
        "factors": {name: values for name, values in summary["factors"].items() if name not in ("shape", "seed")},
        "seeds": summary["factors"].get("seed") or sorted({cell["seed"] for cell in summary["cells"]}),
        "shapes": provenance.shapes(analysis),
        "common": provenance.common_settings(analysis),
        "measured": provenance.measured_on(analysis),
        "main_tables": metric_tables(summary, MAIN),
        "beside_tables": metric_tables(summary, BESIDE),
        "mechanism_tables": metric_tables(summary, MECHANISM),
        "task_tables": task_tables(summary),
        "cells": cells,
        "forecasts": forecasts(analysis),
        "cell_metrics": [metric for metric in MAIN if any(cell.get(metric) is not None for cell in cells)],
        "figures": _figures(analysis, bool(rows)),
        "analysis": analysis.folder.resolve().name,
        "gaps": gaps(analysis, cells),
        "lacking": len(summary.get("lacking", [])),
        "adopted": summary.get("adopted", []),
        "adopted_sentence": adopted_sentence(summary),
        "n_trained": sum("pretrain" in cell["results"] for cell in cells),
        "n_imported": sum("imported" in cell["results"] for cell in cells),
        "whisker_size": (WIDTH, HEIGHT),
    }


def _figures(analysis: Analysis, held: bool) -> dict[str, list[dict[str, Any]]]:
    """The figures of each section, drawn for the page and numbered through it; `held`: against claims."""
    drawn = {figure["name"]: figure for figure in analysis.figures}
    first = tuple(name for name in _HEADLINES if name in drawn and held)[:1]
    wanted = _PLACES | {"words": first, "results": tuple(name for name in _PLACES["results"] if name not in first)}
    named = {name for names in wanted.values() for name in names}
    rest = tuple(name for name in drawn if name not in named)
    places: dict[str, list[dict[str, Any]]] = {}
    number = 0
    for section, names in wanted.items():
        places[section] = []
        for name in (*names, *rest) if section == "results" else names:
            if name in drawn:
                number += 1
                svg = inline_svg(analysis.figure(name), f"drawing-{number}", drawn[name]["alt"], COLOURS)
                caption = numbers.unbroken(drawn[name]["caption"] + _adopted_note(analysis, section))
                places[section].append(drawn[name] | {"number": number, "svg": svg, "caption": caption})
    return places


def _adopted_note(analysis: Analysis, section: str) -> str:
    """What a figure's caption adds where adopted checkpoints are among what it draws."""
    cells = [entry["cell"] for entry in analysis.summary.get("adopted", [])]
    if not cells or section == "overhead":
        return ""
    return f" {numbers.ADOPTED} What is drawn of {numbers.listed(list(dict.fromkeys(cells)))} rests on adopted checkpoints."


def _embedded(path: Path) -> Markup:
    """A file of the project that stands in the page as it is."""
    text = path.read_text(encoding="utf-8")
    assert "</" not in text, f"{path} would end its own element in the page"
    return Markup(text)


def _hash(script: str) -> str:
    """The script's hash for the page's content security policy, which runs this script and no other."""
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
