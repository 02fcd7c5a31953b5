"""paper.tex: whole, safe, and typeset by LaTeX where there is one."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest
from tests.analyse.fabricate import fabricate

from xsa.analyse.analyse import analyse
from xsa.report.paper import paper_tex
from xsa.report.report import write_report


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """The folder of a published study with hostile names; figures in every format."""
    root = tmp_path_factory.mktemp("paper") / "results"
    study = fabricate(root, shapes=1, seeds=2, hostile=True, drop=("chatcore", "pretrain"))
    job = study.job(root / "analyse" / "fabricated@0123456789")
    analyse(job)
    return write_report(job.out, root / "fabricated").parent


def test_every_figure_and_known_table_is_a_float_that_reads_a_file_that_is_there(published):
    text = (published / "paper.tex").read_text(encoding="utf-8")
    read = re.findall(r"\\xsafolder/((?:tables|figures)/[\w.]+)", text)
    assert {f"figures/{path.stem}.pdf" for path in (published / "figures").glob("*.svg")} <= set(read)
    assert "tables/metrics.tex" in read and "tables/overhead.tex" in read
    assert all((published / name).stat().st_size for name in read)
    assert text.count(r"\begin{figure}") + text.count(r"\begin{table}") == len(read)


def test_braces_and_environments_are_balanced(published):
    text = (published / "paper.tex").read_text(encoding="utf-8")
    plain = re.sub(r"\\[{}]", "", re.sub(r"(?m)%.*$", "", text.replace(r"\%", "")))
    assert plain.count("{") == plain.count("}")
    for name in ("figure", "table"):
        assert text.count(rf"\begin{{{name}}}") == text.count(rf"\end{{{name}}}")


def test_strings_from_outside_bring_no_command():
    figure = {"name": "loss", "title": r"\input{/etc/passwd} 中 & $x$", "caption": "100 % {}", "alt": ""}
    text = paper_tex({"title": "a\nb\\end{document}"}, [figure], [])
    assert r"\input{/etc" not in text and "中" not in text
    assert r"\texttt{U+4E2D}" in text and r"100 \%" in text
    assert r"\end{document}" not in text.splitlines()[0]


@pytest.mark.skipif(not shutil.which("pdflatex"), reason="there is no pdflatex here")
@pytest.mark.parametrize("alone", [True, False])
def test_latex_typesets_it_alone_and_inside_a_paper(published, tmp_path, alone):
    source = published / "paper.tex"
    if not alone:
        source = tmp_path / "mine.tex"
        packages = r"\usepackage[T1]{fontenc}\usepackage{booktabs,graphicx}"
        folder = rf"\newcommand{{\xsafolder}}{{{published}}}"
        inside = rf"\begin{{document}}{folder} Before.\input{{{published}/paper.tex}} After.\end{{document}}"
        source.write_text(r"\documentclass{article}" + packages + inside, encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", f"-output-directory={tmp_path}", source]
    done = subprocess.run(command, cwd=published, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    assert "Missing character" not in (tmp_path / f"{source.stem}.log").read_text(errors="replace")
