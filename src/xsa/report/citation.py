"""How to cite the project, from the content of its CITATION.cff: a line for people, an entry for BibTeX."""

from __future__ import annotations

from typing import Any

_BIBTEX = str.maketrans(
    {letter: f"\\{letter}" for letter in "&%$#_{}"} | {"\\": r"\textbackslash{}", "~": r"\~{}", "^": r"\^{}"}
)


def cited(citation: dict[str, Any] | None) -> dict[str, Any] | None:
    """`message`, the project's `line` and `bibtex`, and a line for each of its `references`; None where nothing is told.

    Addresses come without their scheme, so that the page holds nothing that a reader could take for a link outside.
    """
    if not citation:
        return None
    return {
        "message": str(citation.get("message", "")),
        "line": _line(citation),
        "bibtex": _bibtex(citation),
        "references": [_line(one) for one in citation.get("references") or [] if isinstance(one, dict)],
    }


def _authors(entry: dict[str, Any]) -> list[str]:
    names = []
    for author in entry.get("authors") or []:
        whole = [author.get("given-names"), author.get("family-names")] if isinstance(author, dict) else [author]
        name = " ".join(str(part) for part in whole if part) or str(author.get("name", ""))
        names += [name] if name else []
    return names


def _line(entry: dict[str, Any]) -> str:
    parts = [", ".join(_authors(entry)), str(entry.get("title", "")), *_details(entry)]
    return ". ".join(part.rstrip(".") for part in parts if part) + "."


def _details(entry: dict[str, Any]) -> list[str]:
    found = []
    if entry.get("version"):
        found.append(f"Version {entry['version']}")
    if entry.get("date-released"):
        found.append(str(entry["date-released"]))
    address = entry.get("doi") or entry.get("url") or entry.get("repository-code")
    return [*found, str(address).partition("://")[2] or str(address)] if address else found


def _bibtex(citation: dict[str, Any]) -> str:
    title = str(citation.get("title", ""))
    key = "".join(letter for letter in title.partition(":")[0] if letter.isascii() and letter.isalnum()) or "xsa"
    fields = {
        "title": "{" + title.translate(_BIBTEX) + "}",
        "author": " and ".join("{" + name.translate(_BIBTEX) + "}" for name in _authors(citation)),
        "version": str(citation.get("version") or ""),
        "year": str(citation.get("date-released") or "")[:4],
        "note": str(citation.get("license") or "") and f"licence {citation['license']}",
    }
    lines = [f"  {name} = {{{value}}}," for name, value in fields.items() if value]
    return "\n".join([f"@software{{{key},", *lines, "}"])
