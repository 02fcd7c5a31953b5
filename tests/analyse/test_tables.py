"""Tables: numbers in full as CSV, rounded in TeX, and strings from outside harmless in both."""

import csv
import io
import math

import pytest

from tests.analyse.fabricate import HOSTILE
from xsa.analyse.tables import Column, change, csv_text, escape_tex, number, tex_text, write_table


def test_csv_holds_every_digit_and_reads_back():
    text = csv_text(["a", "b", "c"], [{"a": 0.1 + 0.2, "b": None, "c": True}, {"a": 3, "b": math.nan, "c": "x, y"}])
    assert list(csv.reader(io.StringIO(text))) == [
        ["a", "b", "c"],
        ["0.30000000000000004", "", "true"],
        ["3", "", "x, y"],
    ]


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@x", HOSTILE])
def test_no_text_of_a_csv_is_a_formula(text):
    field = next(csv.reader(io.StringIO(csv_text(["x"], [{"x": text}]).split("\n", 1)[1])))[0]
    assert field == "'" + text


def test_negative_numbers_stay_numbers_in_csv():
    assert csv_text(["x"], [{"x": -1.5}]) == "x\n-1.5\n"


def test_line_breaks_and_control_characters_cannot_break_a_row():
    assert csv_text(["x"], [{"x": "a\nb\x00c\u2028d\ufffe"}]) == "x\na b c d \n"


def test_tex_escapes_all_that_tex_acts_on():
    assert escape_tex(r"a_b & 5% #1 $x$ {y} ^ ~ \input") == (
        r"a\_b \& 5\% \#1 \$x\$ \{y\} \textasciicircum{} \textasciitilde{} \textbackslash{}input"
    )


def test_hostile_text_is_inert_in_tex():
    text = tex_text([Column("x", "x")], [{"x": HOSTILE}])
    assert "\\input{" not in text
    row = text.splitlines()[5].replace("\\textbackslash{}", "").replace("\\&", "").replace("\\%", "")
    assert "&" not in row
    assert "%" not in row


def test_tex_is_a_table_with_intervals_and_dashes_for_what_is_missing():
    columns = [Column("name", "Name"), Column("x", "Δ", 3, signed=True), Column(("lo", "hi"), "95 %", 1)]
    rows = [{"name": "a", "x": -0.00123, "lo": 1.0, "hi": 2.0}, {"name": "b", "x": None, "lo": None, "hi": None}]
    assert tex_text(columns, rows).splitlines() == [
        r"% needs \usepackage{booktabs}",
        r"\begin{tabular}{lrr}",
        r"\toprule",
        r"Name & $\Delta$ & 95 \% \\",
        r"\midrule",
        r"a & $-$0.001 & [1.0, 2.0] \\",
        r"b & -- & -- \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]


@pytest.mark.parametrize(
    ("value", "digits", "signed", "expected"),
    [
        (-0.00001, 3, True, "0.000"),
        (0.0123, 3, True, "+0.012"),
        (-0.0123, 3, False, "−0.012"),
        (7, None, False, "7"),
        (0.123456, None, False, "0.123"),
        (-1.2e-7, None, False, "−1.2e−07"),
    ],
)
def test_numbers_have_a_true_minus_and_no_sign_at_zero(value, digits, signed, expected):
    assert number(value, digits, signed) == expected


def test_an_empty_table_still_says_its_columns(tmp_path):
    write_table(tmp_path, "t", [], [Column("name", "Name"), Column(("lo", "hi"), "95 %")])
    assert (tmp_path / "t.csv").read_text() == "name,lo,hi\n"


def test_a_change_that_rounds_to_zero_keeps_its_size():
    assert change(1.6e-8, 4) == "+1.6e−08" and change(-0.00003, 4) == "−3e−05"
    assert (change(0.0, 4), change(-0.0012, 4)) == ("0.0000", "−0.0012")
