"""Numbers as a reader wants them: a true minus sign, digits that mean something, units, and a dash for what is absent."""

from __future__ import annotations

import math
import re

from xsa.store.progress import duration

ABSENT = "–"
ADOPTED = "†"  # beside a number that rests on an adopted checkpoint
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def _minus(text: str) -> str:
    return text.replace("-", "−")


def absent(value: float | None) -> bool:
    """Whether there is no number to show."""
    return value is None or (isinstance(value, float) and not math.isfinite(value))


def fixed(value: float | None, digits: int = 4) -> str:
    """`0.8457`. A value that rounds to zero has no sign."""
    if absent(value):
        return ABSENT
    text = f"{value:.{digits}f}"
    return _minus(text if float(text) else text.lstrip("-"))


def signed(value: float | None, digits: int = 4) -> str:
    """`+0.0013`, `−0.0027`, `0.0000`."""
    if absent(value):
        return ABSENT
    text = f"{value:+.{digits}f}"
    return _minus(text if float(text) else text.lstrip("+-"))


def change(value: float | None, digits: int = 4) -> str:
    """A signed number; one that `digits` would show as zero, though it is none, in powers of ten: `+1.6 × 10⁻⁸`."""
    told = signed(value, digits)
    if absent(value) or not value or told.strip("−+0."):
        return told
    return ("+" if value > 0 else "") + significant(value, 2)


def percent_change(value: float | None, digits: int = 2) -> str:
    """A fraction as a change in per cent, as `change` shows it."""
    return ABSENT if absent(value) else change(100 * value, digits) + " %"


def percent(value: float | None, digits: int = 2, sign: bool = False) -> str:
    """A fraction in per cent: 0.0123 is `1.23 %`."""
    if absent(value):
        return ABSENT
    return (signed if sign else fixed)(100 * value, digits) + " %"


def interval(bounds: list | tuple | None, digits: int = 4, sign: bool = True) -> str:
    """`[−0.0031, −0.0022]`, or a dash where no interval can be given.

    Where `digits` would show both bounds as zero, though one is none, powers of ten: `[+4.0 × 10⁻⁶, +1.6 × 10⁻⁵]`.
    """
    if bounds is None or any(absent(bound) for bound in bounds):
        return ABSENT
    show = signed if sign else fixed
    told = [show(bound, digits) for bound in bounds]
    if not any(bound.strip("−+0.") for bound in told):
        told = [change(bound, digits) if sign else significant(bound, 2) for bound in bounds]
    return f"[{told[0]}, {told[1]}]"


def percent_interval(bounds: list | tuple | None, digits: int = 2) -> str:
    """An interval of fractions, in per cent: `[−0.36, −0.26] %`."""
    if bounds is None or any(absent(bound) for bound in bounds):
        return ABSENT
    return f"[{signed(100 * bounds[0], digits)}, {signed(100 * bounds[1], digits)}] %"


def significant(value: float | None, digits: int = 3) -> str:
    """`digits` significant digits; powers of ten where plain digits would hide the size: `1.2 × 10⁻⁷`."""
    if absent(value):
        return ABSENT
    if value == 0:
        return "0"
    exponent = math.floor(math.log10(abs(value)))
    if -4 <= exponent < 6:
        text = f"{value:.{max(0, digits - 1 - exponent)}f}"
        return _minus(f"{float(text):,.0f}" if exponent >= digits - 1 else text)
    mantissa, power = f"{value:.{digits - 1}e}".split("e")
    return f"{_minus(mantissa)} × 10{str(int(power)).translate(_SUPERSCRIPTS)}"


def probability(value: float | None) -> str:
    """A p in two digits: `0.023`, `0.36`, `1`; what is smaller than a table needs is `< 0.0001`."""
    if absent(value):
        return ABSENT
    return (
        "< 0.0001" if value < 1e-4 else "1" if value >= 0.995 else f"{value:.2g}" if value >= 1e-3 else f"{value:.1g}"
    )


def count(value: float | None) -> str:
    """A whole number with thousands apart: `1,048,576`."""
    return ABSENT if absent(value) else _minus(f"{round(value):,}")


def amount(value: float | None, unit: str = "") -> str:
    """A large number in short: `5.84 B`, `47.0 M`, `820 K`; small ones whole."""
    if absent(value):
        return ABSENT
    for size, letter in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "K")):
        if abs(value) >= size:
            number = f"{value / size:.3g}" if abs(value) < 1000 * size else f"{value / size:,.0f}"
            return f"{_minus(number)} {letter}{unit and ' ' + unit}"
    return f"{count(value)}{unit and ' ' + unit}"


def size(value: float | None) -> str:
    """Bytes in short: `612 bytes`, `1.5 kB`, `498 MB`."""
    if absent(value):
        return ABSENT
    for unit, letters in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if value >= unit:
            return f"{value / unit:.3g} {letters}" if value < 1000 * unit else f"{value / unit:,.0f} {letters}"
    return counted(value, "byte")


def seconds(value: float | None) -> str:
    """A duration: `42 s`, `3 min 05 s`; below a second in milliseconds."""
    if absent(value):
        return ABSENT
    return f"{1000 * value:.0f} ms" if value < 1 else duration(value)


def setting(value: object) -> str:
    """A setting's value as a person would write it: no Python in sight, whole numbers in a row as a range."""
    if value is None:
        return ABSENT
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return _minus(f"{value:,}" if abs(value) >= 10_000 else str(value))
    if isinstance(value, float):
        return _minus(f"{value:,.0f}" if 10_000 <= abs(value) < math.inf else f"{value:.4g}")
    if isinstance(value, (list, tuple)):
        if _is_run(value):
            return f"{value[0]}–{value[-1]}"
        return ", ".join(setting(item) for item in value) if value else "none"
    if isinstance(value, dict):
        return ", ".join(f"{key} {setting(item)}" for key, item in value.items())
    return str(value)


def unbroken(text: str) -> str:
    """Text that no line breaks before a per cent sign, around an equals sign, or at the hyphen of self-attention."""
    text = re.sub("(?i)(self)-(?=attention)", "\\1\u2011", text)
    return re.sub(r"(?<=[0-9\]]) %", "\u00a0%", text).replace(" = ", "\u00a0=\u00a0")


def opening(text: str) -> str:
    """A label as it opens a heading: with a capital."""
    return text[:1].upper() + text[1:]


def counted(number: int, noun: str, plural: str = "") -> str:
    """`1 seed`, `3 seeds`."""
    return f"{count(number)} {noun if number == 1 else plural or noun + 's'}"


def listed(items: list[str], last: str = "and") -> str:
    """`a`, `a and b`, `a, b and c`."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} {last} {items[-1]}" if items else ""


def _is_run(values: list | tuple) -> bool:
    if len(values) < 3 or not all(isinstance(value, int) and not isinstance(value, bool) for value in values):
        return False
    return list(values) == list(range(values[0], values[0] + len(values)))
