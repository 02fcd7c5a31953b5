"""A figure's SVG made fit to stand inside a page: harmless, with ids of its own, and readable on a dark ground.

What stays is drawing only, by a list of elements and attributes. Scripts, event handlers, foreign content, outside
references and style sheets are dropped, for a folder of results may have been copied from anywhere. Ids are renamed
in their order of appearance under a prefix, so that no two figures of a page share one.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

from markupsafe import Markup

from xsa.store.errors import UserError

_ELEMENTS = (
    "svg g defs path rect circle ellipse line polyline polygon text tspan use clipPath marker symbol "
    "linearGradient radialGradient stop pattern mask"
)
_ATTRIBUTES = (
    "id style d x y x1 x2 y1 y2 cx cy r rx ry dx dy width height points transform viewBox preserveAspectRatio "
    "fill fill-opacity fill-rule stroke stroke-width stroke-opacity stroke-linecap stroke-linejoin stroke-dasharray "
    "stroke-dashoffset stroke-miterlimit opacity clip-path clip-rule clipPathUnits text-anchor dominant-baseline "
    "font-family font-size font-style font-weight href offset stop-color stop-opacity gradientUnits gradientTransform "
    "patternUnits patternTransform markerWidth markerHeight markerUnits refX refY orient overflow mask"
)
ELEMENTS, ATTRIBUTES = frozenset(_ELEMENTS.split()), frozenset(_ATTRIBUTES.split())
_REFERENCE = re.compile(r"url\(\s*['\"]?#([^)'\"]+)['\"]?\s*\)")
_PLAIN_STYLE = re.compile(r"^[\w\s#%.,:;()'\"+-]*$")
_COLOUR = re.compile(r"#[0-9a-fA-F]{6}\b|#[0-9a-fA-F]{3}\b")


def inline_svg(text: str, prefix: str, label: str, colours: dict[str, str] | None = None) -> Markup:
    """The SVG document `text` as an element for an HTML page, of role `img` and with the accessible name `label`.

    prefix: begins every id of this figure; it must be unlike that of any other figure of the page.
    colours: colours of the drawing (`#rrggbb`, lower case) -> the CSS value that replaces them, so that ink and
    ground can follow the page's scheme.
    """
    try:
        root = ET.fromstring(text)
    except ET.ParseError as error:
        raise UserError(f"figure {prefix} is not well-formed SVG ({error}); run analyse again") from None
    if _local(root.tag) != "svg":
        raise UserError(f"figure {prefix} is not an SVG drawing but <{_local(root.tag)}>; run analyse again")
    _sanitise(root)
    _rename(root, prefix)
    _recolour(root, colours or {})
    # the page decides the size; the drawing keeps its shape, and says how wide it was drawn
    width, height = (_number(root.attrib.pop(name, "")) for name in ("width", "height"))
    box = root.attrib.setdefault("viewBox", f"0 0 {width} {height}").replace(",", " ").split()
    root.set("style", f"--w: {_number(box[2] if len(box) == 4 else width)}")
    root.set("role", "img")
    root.set("aria-label", label)
    root.tail = None
    # everything that was not on the lists is gone, and ElementTree escapes what is left
    return Markup(ET.tostring(root, encoding="unicode", short_empty_elements=False))


def _local(name: str) -> str:
    return name.rpartition("}")[2] if isinstance(name, str) else ""


def _number(length: str) -> str:
    match = re.match(r"\s*([\d.]+)", length)
    return match.group(1) if match else "100"


def _sanitise(element: ET.Element) -> None:
    element.tag = _local(element.tag)
    kept: dict[str, str] = {}
    for name, value in element.attrib.items():
        name = _local(name)
        if name not in ATTRIBUTES:
            continue
        if name == "href" and not value.startswith("#"):
            continue
        if name != "href" and not _PLAIN_STYLE.match(value):
            continue
        outside = "url(" in _REFERENCE.sub("", value)
        if not outside:
            kept[name] = value
    element.attrib.clear()
    element.attrib.update(kept)
    for child in list(element):
        if _local(child.tag) in ELEMENTS:
            _sanitise(child)
        else:
            element.remove(child)


def _rename(root: ET.Element, prefix: str) -> None:
    new: dict[str, str] = {}
    for element in root.iter():
        if "id" in element.attrib:
            new.setdefault(element.attrib["id"], f"{prefix}-{len(new) + 1}")
    seen: set[str] = set()
    for element in root.iter():
        own = element.attrib.pop("id", None)
        if own is not None and own not in seen:
            element.set("id", new[own])
            seen.add(own)
        for name, value in list(element.attrib.items()):
            if name == "href":
                element.set(name, "#" + new.get(value[1:], f"{prefix}-missing"))
            elif "url(" in value:
                element.set(name, _REFERENCE.sub(lambda m: f"url(#{new.get(m.group(1), f'{prefix}-missing')})", value))


def _recolour(root: ET.Element, colours: dict[str, str]) -> None:
    def replaced(match: re.Match) -> str:
        return colours.get(_full(match.group(0)), match.group(0))

    for element in root.iter():
        for name in ("style", "fill", "stroke", "stop-color"):
            value = element.attrib.get(name)
            if value is None:
                continue
            # var() works in a style only, so a presentation attribute moves there when it changes
            changed = _COLOUR.sub(replaced, value)
            if changed == value:
                continue
            if name == "style":
                element.set("style", changed)
            else:
                del element.attrib[name]
                element.set("style", f"{name}: {changed}; {element.get('style', '')}".rstrip("; "))


def _full(colour: str) -> str:
    colour = colour.lower()
    return colour if len(colour) == 7 else "#" + "".join(2 * letter for letter in colour[1:])
