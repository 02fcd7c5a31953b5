"""Tables as CSV, with every digit, and as TeX, rounded for print; strings from outside do no harm in either."""

from __future__ import annotations

import csv
import io
import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xsa.store.files import write_text

_FORMULA = ("=", "+", "-", "@")  # what makes a spreadsheet take a cell for a formula
_TEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "−": "$-$",
    "±": r"$\pm$",
    "×": r"$\times$",
    "α": r"$\alpha$",
    "Δ": r"$\Delta$",
    "ᵢ": r"$_{i}$",
    "ⱼ": r"$_{j}$",
    "…": r"\ldots{}",
    "–": "--",
    "\u2011": "-",
    "†": r"\textdagger{}",
    "²": r"$^{2}$",
    "⟨": r"$\langle$",
    "⟩": r"$\rangle$",
    "ε": r"$\varepsilon$",
    "‖": r"$\|$",
}
_UNPRINTABLE = ("Cc", "Cn", "Cs", "Zl", "Zp")
MISSING_TEX = "--"


@dataclass(frozen=True)
class Column:
    """A column of a table: `key` of the row, or of two keys for an interval; `header` in print; digits after the point."""

    key: str | tuple[str, str]
    header: str
    digits: int | None = None
    signed: bool = False


def write_table(
    folder: Path,
    name: str,
    rows: Sequence[dict[str, Any]],
    columns: Sequence[Column],
    printed: Sequence[dict[str, Any]] | None = None,
) -> None:
    """Write `folder/name.csv`, with all keys of the rows in order of appearance, and `folder/name.tex` of `columns`.

    printed: the rows of the TeX table, where all of them would be too many for a page. A list or mapping in a row is
    left out of both. With no rows the CSV holds the columns' keys as header.
    """
    keys = list(dict.fromkeys(key for row in rows for key, value in row.items() if not _is_nested(value)))
    if not rows:
        keys = [key for column in columns for key in _keys(column)]
    write_text(folder / f"{name}.csv", csv_text(keys, rows))
    write_text(folder / f"{name}.tex", tex_text(columns, rows if printed is None else printed))


def csv_text(keys: Sequence[str], rows: Sequence[dict[str, Any]]) -> str:
    """Rows as CSV (RFC 4180 quoting, line feeds). Numbers in full; None is an empty field, truth is true or false."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([_csv_field(key) for key in keys])
    for row in rows:
        writer.writerow([_csv_field(row.get(key)) for key in keys])
    return text.getvalue()


def _csv_field(value: Any) -> str:
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(float(value))
    text = one_line(str(value))
    # an apostrophe in front makes a spreadsheet show the text as it stands
    return "'" + text if text.lstrip().startswith(_FORMULA) else text


def tex_text(columns: Sequence[Column], rows: Sequence[dict[str, Any]]) -> str:
    """Rows as a `tabular` for the package booktabs, numbers right-aligned."""
    kinds = ["l" if _is_text(column, rows) else "r" for column in columns]
    lines = [
        r"% needs \usepackage{booktabs}",
        rf"\begin{{tabular}}{{{''.join(kinds)}}}",
        r"\toprule",
        " & ".join(escape_tex(column.header) for column in columns) + r" \\",
        r"\midrule",
        *(" & ".join(_tex_field(column, row) for column in columns) + r" \\" for row in rows),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join(lines) + "\n"


def _tex_field(column: Column, row: dict[str, Any]) -> str:
    if isinstance(column.key, tuple):
        ends = [row.get(key) for key in column.key]
        if None in ends:
            return MISSING_TEX
        return "[" + ", ".join(escape_tex(number(end, column.digits, column.signed)) for end in ends) + "]"
    value = row.get(column.key)
    if value is None:
        return MISSING_TEX
    if isinstance(value, bool):
        return "yes" if value else "no"
    if column.signed and column.digits is not None:
        return escape_tex(change(value, column.digits))
    if isinstance(value, (int, float)):
        return escape_tex(number(value, column.digits, column.signed))
    return escape_tex(str(value))


def number(value: float, digits: int | None = None, signed: bool = False) -> str:
    """A number for readers, with a true minus sign, and none for what rounds to zero.

    digits: after the point; three significant ones where None. signed: a plus sign too.
    """
    form = "d" if isinstance(value, int) else ".3g" if digits is None else f".{digits}f"
    text = format(value, form)
    zero = text.strip("-0.") == ""
    text = text.lstrip("-") if zero else text.replace("-", "−")
    return "+" + text if signed and value > 0 and not zero else text


def change(value: float, digits: int) -> str:
    """A signed number; one that `digits` would show as zero, though it is none, in two significant digits."""
    told = number(value, digits, True)
    if told.strip("−+0.") or not value:
        return told
    return number(float(f"{value:.1e}"), None, True)


def escape_tex(text: str) -> str:
    """Text that TeX prints as it stands, on one line; by its number what fonts of Latin letters lack."""
    return "".join(_TEX.get(character) or _printable(character) for character in one_line(text))


def _printable(character: str) -> str:
    return character if character < "\u0180" else rf"\texttt{{U+{ord(character):04X}}}"


def one_line(text: str) -> str:
    """Text without line breaks, control characters and what is no character, which become blanks."""
    return "".join(" " if unicodedata.category(character) in _UNPRINTABLE else character for character in text)


def _keys(column: Column) -> tuple[str, ...]:
    return column.key if isinstance(column.key, tuple) else (column.key,)


def _is_nested(value: Any) -> bool:
    return isinstance(value, (list, tuple, dict))


def _is_text(column: Column, rows: Sequence[dict[str, Any]]) -> bool:
    return any(isinstance(row.get(key), (str, bool)) for row in rows for key in _keys(column))
