"""Numbers read as in a paper."""

import math

import pytest

from xsa.report import numbers


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (numbers.fixed(-0.00271), "−0.0027"),
        (numbers.fixed(-0.00001), "0.0000"),
        (numbers.signed(0.0013), "+0.0013"),
        (numbers.signed(-0.00001), "0.0000"),
        (numbers.percent(-0.00318, sign=True), "−0.32 %"),
        (numbers.interval([-0.0031, 0.0002]), "[−0.0031, +0.0002]"),
        (numbers.interval([4e-6, -1.6e-5]), "[+4.0 × 10⁻⁶, −1.6 × 10⁻⁵]"),
        (numbers.interval([0.0, 0.0]), "[0.0000, 0.0000]"),
        (numbers.interval(None), "–"),
        (numbers.percent_interval([-0.0036, -0.0026]), "[−0.36, −0.26] %"),
        (numbers.significant(1.234e-7), "1.23 × 10⁻⁷"),
        (numbers.significant(-0.01234), "−0.0123"),
        (numbers.significant(1234.6), "1,235"),
        (numbers.significant(0.0), "0"),
        (numbers.amount(5_840_000_000), "5.84 B"),
        (numbers.amount(524_288), "524 K"),
        (numbers.amount(999), "999"),
        (numbers.count(1_048_576), "1,048,576"),
        (numbers.seconds(0.0416), "42 ms"),
        (numbers.seconds(1800), "30 min 00 s"),
        (numbers.setting(0.00002), "2e−05"),
        (numbers.setting(0.0123456789), "0.01235"),
        (numbers.setting(1_638_400), "1,638,400"),
        (numbers.setting((0, 1, 2)), "0–2"),
        (numbers.change(-0.0027), "−0.0027"),
        (numbers.change(0.0), "0.0000"),
        (numbers.change(1.6e-8), "+1.6 × 10⁻⁸"),
        (numbers.percent_change(-1e-9), "−1.0 × 10⁻⁷ %"),
        (numbers.unbroken("self-attention, 5 %, α = 1"), "self\u2011attention, 5\u00a0%, α\u00a0=\u00a01"),
        (numbers.opening("baseline"), "Baseline"),
        (numbers.setting((0, 1, 3)), "0, 1, 3"),
        (numbers.setting(True), "yes"),
        (numbers.counted(1, "seed"), "1 seed"),
        (numbers.counted(3, "seed"), "3 seeds"),
        (numbers.listed(["a", "b", "c"]), "a, b and c"),
    ],
)
def test_a_number_is_shown_as_a_person_would_write_it(shown, expected):
    assert shown == expected


@pytest.mark.parametrize(
    "show", [numbers.fixed, numbers.signed, numbers.percent, numbers.significant, numbers.amount, numbers.seconds]
)
@pytest.mark.parametrize("value", [None, math.nan, math.inf])
def test_what_is_no_number_is_a_dash(show, value):
    assert show(value) == "–"


def test_a_p_has_two_digits_and_no_more_zeros_than_a_table_needs():
    told = [numbers.probability(value) for value in (0.0234, 0.361, 1.0, 0.99999, 0.0004, 1e-9, None)]
    assert told == ["0.023", "0.36", "1", "1", "0.0004", "< 0.0001", "–"]
