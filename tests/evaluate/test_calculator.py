import json

import pytest

from xsa.evaluate.calculator import calculate


def test_it_gives_the_reference_values_with_their_types(reference):
    for case in json.loads((reference("engine") / "calculator.json").read_text()):
        value = calculate(case["expression"])
        assert value == case["result"], case["expression"]
        if value is not None:
            assert (type(value).__name__, str(value)) == (case["result_type"], case["result_text"])


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("1 + 2 * 3", 7),
        ("-(2 - 5) * 4", 12),
        ("2 - 3 - 4", -5),
        ("12 / 4", 3.0),
        ("7 // 2 * 2", 6),
        ("--3", 3),
        (".5 + 1.", 1.5),
        ("00", 0),
        ("  1+1 ", 2),
        ("('strawberry').count('r')", 3),
        ("'profile'.count('f')", 1),
    ],
)
def test_it_reckons_as_python_does(expression, value):
    assert calculate(expression) == value


@pytest.mark.parametrize(
    "expression",
    [
        "012",
        "1 2",
        "()",
        "(1",
        "1)",
        "2 ** 3",
        "1..2",
        ".",
        "7 % 2",
        "1e3",
        "0x10",
        "1_000",
        "3 3.count(3)",
        "'abc'",
        "'a'.upper().count('A')",
        "'a' 'b'.count('a')",
        "count('a')",
        "'abc.count('a')",
        "a.count('a')",
    ],
)
def test_what_is_not_of_its_language_has_no_value(expression):
    assert calculate(expression) is None


@pytest.mark.parametrize(
    "expression",
    [
        "1/0",
        "1//0.0",
        "9" * 5000,
        "9" * 301,
        "*".join(["9" * 200] * 3),
        "(" * 60 + "1" + ")" * 60,
        "-" * 500 + "1",
        "9" * 400 + ".0",
        "1" * 300 + " / .1" * 20,
    ],
)
def test_division_by_zero_and_results_beyond_the_limits_have_no_value(expression):
    assert calculate(expression) is None
