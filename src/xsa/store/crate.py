"""The description of an archive: an RO-Crate 1.1 metadata document (JSON-LD), which lists every file with size and SHA-256.

https://www.researchobject.org/ro-crate/specification/1.1/; `sha256` is schema.org's term, which that version's context lacks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote

from xsa.store.errors import UserError

METADATA = "ro-crate-metadata.json"
_SPECIFICATION = "https://w3id.org/ro/crate/1.1"
_CONTEXT = [f"{_SPECIFICATION}/context", {"sha256": "http://schema.org/sha256"}]
_LICENCE = "#licence"
# What an archive may hold; nothing hidden, nothing that leads out of its folder.
_RESULT = r"results/[a-z_]+/[A-Za-z0-9._-]+@[0-9a-f]{10}"
_PLACES = re.compile(
    rf"config/(studies|recipes)/[A-Za-z0-9][A-Za-z0-9_.-]*\.yaml|config/stages\.lock|hashes\.json"
    rf"|{_RESULT}(/[^./\\\x00-\x1f][^/\\\x00-\x1f]*)+"
)
# In bytes, what file systems take.
_LONGEST_NAME, _LONGEST_PATH = 255, 1000
_MEDIA = {
    ".json": "application/json",
    ".yaml": "application/yaml",
    ".html": "text/html",
    ".csv": "text/csv",
    ".svg": "image/svg+xml",
    ".pdf": "application/pdf",
    ".tex": "application/x-tex",
    ".parquet": "application/vnd.apache.parquet",
    ".arrow": "application/vnd.apache.arrow.file",
}


@dataclass(frozen=True)
class Entry:
    """A file of an archive: its path there, its size in bytes and its SHA-256."""

    path: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class About:
    """What an archive is about, for its description. `date` is the ISO date and time of its newest result."""

    study: str
    title: str
    question: str
    date: str
    version: str
    commits: tuple[str, ...]


def describe(about: About, entries: Iterable[Entry], results: dict[str, str]) -> dict[str, Any]:
    """The metadata document. `results` maps the folder of each result to a sentence that says what it is."""
    entries = list(entries)
    folders = {folder: [entry for entry in entries if entry.path.startswith(folder)] for folder in results}
    inside = {entry.path for found in folders.values() for entry in found}
    single = [entry.path for entry in entries if entry.path not in inside]
    study = f"config/studies/{about.study}.yaml"
    graph: list[dict[str, Any]] = [
        {
            "@id": METADATA,
            "@type": "CreativeWork",
            "conformsTo": {"@id": _SPECIFICATION},
            "about": {"@id": "./"},
        },
        {
            "@id": "./",
            "@type": "Dataset",
            "name": about.title,
            "description": about.question,
            "identifier": about.study,
            "datePublished": about.date,
            "license": {"@id": _LICENCE},
            "hasPart": _references([*single, *results]),
            "mentions": {"@id": "#run"},
        },
        {
            "@id": _LICENCE,
            "@type": "CreativeWork",
            "name": "Licence of these results",
            "description": "For whoever publishes them to state. The software that made them is under the MIT licence; texts "
            "and evaluation sets keep the licences of their publishers.",
        },
        {
            "@id": "#xsa",
            "@type": "SoftwareApplication",
            "name": "xsa",
            "version": about.version,
            "softwareVersion": ", ".join([about.version, *(f"commit {commit}" for commit in about.commits)]),
        },
        {
            "@id": "#run",
            "@type": "CreateAction",
            "name": f"The run of the study {about.study}",
            "endTime": about.date,
            "instrument": {"@id": "#xsa"},
            "object": {"@id": quote(study)},
            "result": _references(results),
        },
    ]
    for folder, found in folders.items():
        parts = _references(entry.path for entry in found)
        name = folder.removeprefix("results/").rstrip("/")
        graph.append(
            {"@id": quote(folder), "@type": "Dataset", "name": name, "description": results[folder], "hasPart": parts}
        )
    graph += [_file(entry) for entry in entries]
    return {"@context": _CONTEXT, "@graph": graph}


def _references(paths: Iterable[str]) -> list[dict[str, str]] | dict[str, str]:
    """References to entities; a single one stands without a list, as the specification recommends."""
    references = [{"@id": quote(path)} for path in paths]
    return references[0] if len(references) == 1 else references


def _file(entry: Entry) -> dict[str, Any]:
    name = entry.path.rpartition("/")[2]
    media = _MEDIA.get(name[name.rfind(".") :], "application/octet-stream")
    return {
        "@id": quote(entry.path),
        "@type": "File",
        "name": name,
        "contentSize": str(entry.bytes),
        "encodingFormat": media,
        "sha256": entry.sha256,
    }


def is_place(path: str) -> bool:
    """Whether a path is one at which an archive may hold a file."""
    try:
        names = path.encode().split(b"/")
    except UnicodeEncodeError:  # half of a character
        return False
    short = len(path) <= _LONGEST_PATH and max(map(len, names)) <= _LONGEST_NAME
    return short and _PLACES.fullmatch(path) is not None


def listed(text: bytes, archive: str) -> dict[str, Entry]:
    """The files that a metadata document lists, by path. `archive` is what messages call the archive.

    UserError where the document is no such description, or lists something that no export writes: a path that leads
    elsewhere, a file without size or hash.
    """
    try:
        graph = json.loads(text)["@graph"]
        files = [entity for entity in graph if entity.get("@type") == "File"]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise UserError(f"{archive}: its {METADATA} is no RO-Crate; give a file that `xsa export` wrote") from None
    entries: dict[str, Entry] = {}
    for entity in files:
        path, size, sha256 = (str(entity.get(key, "")) for key in ("@id", "contentSize", "sha256"))
        path = unquote(path)
        if not is_place(path):
            raise UserError(f"{archive} lists {path!r}, which is no place of a study's results; nothing was imported")
        if not re.fullmatch(r"\d{1,16}", size, re.ASCII) or not re.fullmatch(r"[0-9a-f]{64}", sha256):
            raise UserError(f"{archive} gives no size or no SHA-256 of {path}; nothing was imported")
        if path in entries:
            raise UserError(f"{archive} lists {path} twice; nothing was imported")
        entries[path] = Entry(path, int(size), sha256)
    return entries
