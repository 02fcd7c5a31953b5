"""The style sheet's colours can be read: WCAG 2 contrast of every text colour on every ground it stands on."""

import re
from pathlib import Path

import pytest

STYLE = (Path(__file__).parents[2] / "report" / "style.css").read_text(encoding="utf-8")
TEXT_ON_GROUND = [
    *(("paper", text) for text in ("ink", "soft", "link", "better", "worse")),
    *(("panel", text) for text in ("ink", "soft", "link")),
    *(("notice", text) for text in ("notice-ink", "ink", "soft", "better", "worse", "link")),
]
LEAST = 4.5


def schemes() -> dict[str, dict[str, str]]:
    """Colours by scheme, as the browser would resolve them: a later block overrides what it names."""
    blocks = [
        dict(re.findall(r"--([\w-]+):\s*(#[0-9a-f]{6})", block)) for block in re.findall(r":root\s*{([^}]*)}", STYLE)
    ]
    light, dark, paper = blocks
    return {"light": light, "dark": light | dark, "print": light | paper}


def luminance(colour: str) -> float:
    """Relative luminance of sRGB (WCAG 2.2, section 1.4.3)."""
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(first: str, second: str) -> float:
    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


def test_black_on_white_is_21_to_1():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)


@pytest.mark.parametrize("scheme", ["light", "dark", "print"])
@pytest.mark.parametrize(("ground", "text"), TEXT_ON_GROUND)
def test_text_stands_out_from_its_ground(scheme, ground, text):
    colours = schemes()[scheme]
    assert contrast(colours[ground], colours[text]) >= LEAST


def test_colours_are_named_once():
    body = re.sub(r":root\s*{[^}]*}", "", STYLE)
    assert not re.findall(r"#[0-9a-fA-F]{3,8}\b|rgba?\(|hsla?\(", body)


def test_no_text_is_faded():
    assert not re.findall(r"[^-]opacity:", STYLE)


def test_the_style_sheet_fetches_nothing():
    assert "url(" not in STYLE and "@import" not in STYLE


@pytest.mark.parametrize("scheme", ["light", "dark", "print"])
def test_lines_of_figures_stand_out_from_the_page(scheme):
    colours = schemes()[scheme]
    arms = [name for name in colours if name.startswith("arm-")]
    assert len(arms) == 6
    assert all(contrast(colours["paper"], colours[name]) >= 3 for name in [*arms, "plot-quiet", "strong-rule"])
