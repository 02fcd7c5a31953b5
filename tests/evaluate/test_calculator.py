import json
import math
import random
import warnings

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


def reference_rule(expression: str):
    """What Python itself makes of an arithmetic text: nanochat's tool asks it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        try:
            return eval(expression, {"__builtins__": {}}, {})
        except (SyntaxError, ArithmeticError, TypeError):
            return None


def test_random_arithmetic_has_python_s_value_and_type_or_none():
    rng, valued = random.Random(0), 0
    pieces = ["1", "2", "7", "10", "0", "3.5", ".5", "12", "+", "-", "*", "/", "//", "(", ")", " ", "-"]
    for _ in range(20_000):
        text = "".join(rng.choice(pieces) for _ in range(rng.randint(1, 9))).strip()
        if "**" in text:
            continue
        expected, value = reference_rule(text), calculate(text)
        if isinstance(expected, tuple) or (isinstance(expected, float) and not math.isfinite(expected)):
            expected = None
        assert (value, type(value)) == (expected, type(expected)), text
        valued += value is not None
    assert valued > 2000


def test_counting_has_python_s_value_for_random_words():
    rng = random.Random(1)
    for _ in range(500):
        word = "".join(rng.choice("abc ") for _ in range(rng.randint(0, 12)))
        letters = "".join(rng.choice("abc") for _ in range(rng.randint(0, 2)))
        assert calculate(f"'{word}'.count(\"{letters}\")") == word.count(letters)
