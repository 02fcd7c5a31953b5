"""`paper.tex`: a study's tables and figures as LaTeX floats, to be typeset alone or read into a paper."""

from __future__ import annotations

from typing import Any

from xsa.analyse.tables import escape_tex
from xsa.report.adopted import adopted_sentence

PAPER = "paper.tex"
# table: what its caption says; in this order
TABLES = {
    "claims": "The paper's claims and what this study says of each.",
    "metrics": "Change of each metric against the baseline, paired by seed, with 95\\,\\% intervals.",
    "tasks": "Change in accuracy by task, with 95\\,\\% intervals over items.",
    "alignment": "Attention diagnostics: means over layers, heads and positions from 1 on.",
    "overhead": "Time of a training step, a forward and a backward pass, relative to the baseline's.",
    "equivalence": "Greatest differences between standard attention and the explicit path at $\\alpha = 0$.",
}
_OPENING = r"""% Tables and figures of the study, made with the page beside it; change nothing here, it is written anew.
%
%   pdflatex paper.tex              typesets them alone
%   \newcommand{\xsafolder}{DIR}    in a paper, DIR being the folder of this file, followed by
%   \input{DIR/paper.tex}           reads them all; or copy the floats that you want
%
% A paper that reads them needs \usepackage[T1]{fontenc}, \usepackage{booktabs} and \usepackage{graphicx}.
\makeatletter
\ifx\@nodocument\relax
  \def\xsaend{}
\else
  \documentclass{article}
  \usepackage[T1]{fontenc}
  \usepackage[utf8]{inputenc}
  \IfFileExists{lmodern.sty}{\usepackage{lmodern}}{}
  \usepackage{booktabs,graphicx}
  \usepackage[margin=2.5cm]{geometry}
  \def\xsaend{\end{document}}
  \begin{document}
\fi
\makeatother
\providecommand{\xsafolder}{.}
% what is wider or higher than the page becomes smaller
\providecommand{\xsafit}[1]{\sbox0{#1}%
  \ifdim\wd0>\linewidth\sbox0{\resizebox{\linewidth}{!}{\usebox0}}\fi
  \ifdim\dimexpr\ht0+\dp0\relax>0.8\textheight\sbox0{\resizebox{!}{0.8\textheight}{\usebox0}}\fi
  \usebox0}
"""


def paper_tex(summary: dict[str, Any], figures: list[dict[str, str]], tables: list[str]) -> str:
    """The text of `paper.tex`: a float for each of the known `tables` (names without ending) and for each figure.

    It reads tables/<name>.tex and figures/<name>.pdf from the folder it lies in.
    """
    parts = [f"% {escape_tex(summary['title'])}", _OPENING.rstrip()]
    adopted = f" {escape_tex(adopted_sentence(summary))}".rstrip()
    parts += [_table(name, caption + adopted) for name, caption in TABLES.items() if name in tables]
    parts += [_figure(figure, adopted) for figure in figures]
    return "\n\n".join([*parts, r"\clearpage" + "\n" + r"\xsaend"]) + "\n"


def _table(name: str, caption: str) -> str:
    return "\n".join(
        [
            r"\begin{table}[p]",
            r"  \centering",
            rf"  \caption{{{caption}}}",
            rf"  \label{{tab:xsa-{name}}}",
            rf"  \xsafit{{\input{{\xsafolder/tables/{name}.tex}}}}",
            r"\end{table}",
        ]
    )


def _figure(figure: dict[str, str], adopted: str) -> str:
    return "\n".join(
        [
            r"\begin{figure}[p]",
            r"  \centering",
            rf"  \xsafit{{\includegraphics{{\xsafolder/figures/{figure['name']}.pdf}}}}",
            rf"  \caption{{\textbf{{{escape_tex(figure['title'])}.}} {escape_tex(figure['caption'])}{adopted}}}",
            rf"  \label{{fig:xsa-{figure['name']}}}",
            r"\end{figure}",
        ]
    )
