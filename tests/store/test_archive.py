"""An archive comes whole and honest, or nothing of it comes."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import tarfile
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.store.results import write_result
from xsa.store import archive as archive_module
from xsa.store.archive import Member, text_member, unpack, write_archive
from xsa.store.arrival import arrivals, settle, staging
from xsa.store.crate import METADATA, About, Entry, describe
from xsa.store.errors import UserError
from xsa.store.record import read_record

FILES = {"model.safetensors": b"w" * 3_000_000, "config.json": b"{}"}
ABOUT = About("mini", "The miniature", "Does it run?", "2026-01-02T03:04:05+00:00", "0.1.0", ("0123456789ab",))


def no_progress(count: int) -> None:
    pass


@pytest.fixture
def folder(tmp_path) -> Path:
    return write_result(tmp_path / "results", "pretrain", "d2", FILES)


def members_of(folder: Path) -> list[Member]:
    place = f"results/{folder.parent.name}/{folder.name}/"
    known = read_record(folder)["files"]
    members = [Member(Entry(place + file, one["bytes"], one["sha256"]), folder / file) for file, one in known.items()]
    return [*members, text_member(place + "record.json", (folder / "record.json").read_bytes())]


def description(members: list[Member]) -> dict:
    places = {member.entry.path.rsplit("/", 1)[0] + "/": "a result" for member in members}
    return describe(ABOUT, [member.entry for member in members], places)


@pytest.fixture
def archive(folder, tmp_path) -> Path:
    members = members_of(folder)
    write_archive(tmp_path / "mini.tar", description(members), members, no_progress)
    return tmp_path / "mini.tar"


@pytest.fixture
def bring(tmp_path):
    """Import an archive into the folder of results `there`, as `xsa import` does; return how many came new."""

    def run(archive: Path) -> int:
        results = tmp_path / "there"
        with staging(results) as staged:
            found = arrivals(staged, unpack(archive, staged, no_progress), results, archive.name)
            return sum([settle(arrival) for arrival in found])

    return run


@pytest.fixture
def refused(tmp_path, bring):
    """Assert that an archive is refused with a sentence and that nothing of it is visible afterwards."""

    def check(archive: Path, sentence: str) -> None:
        with pytest.raises(UserError, match=sentence):
            bring(archive)
        assert list((tmp_path / "there").rglob("*")) == []

    return check


def rewritten(archive: Path, change) -> Path:
    """The archive with `change(members)` made to its list of (TarInfo, content)."""
    with tarfile.open(archive) as tar:
        members = [(info, tar.extractfile(info).read()) for info in tar]
    change(members)
    other = archive.with_name("other.tar")
    with tarfile.open(other, "w") as tar:
        for info, content in members:
            tar.addfile(info, io.BytesIO(content) if info.isreg() else None)
    return other


def relisted(archive: Path, change) -> Path:
    """The archive with its description's files changed by `change(files)`."""

    def edit(members) -> None:
        graph = json.loads(members[0][1])
        change([entity for entity in graph["@graph"] if entity["@type"] == "File"])
        content = json.dumps(graph).encode()
        members[0][0].size = len(content)
        members[0] = (members[0][0], content)

    return rewritten(archive, edit)


def named(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info


def test_what_is_brought_is_what_was_written(archive, folder, bring, tmp_path):
    assert bring(archive) == 1
    copy = tmp_path / "there" / "pretrain" / folder.name
    assert {path.name: path.read_bytes() for path in copy.iterdir()} == {
        path.name: path.read_bytes() for path in folder.iterdir()
    }
    assert [path.name for path in (tmp_path / "there").iterdir()] == ["pretrain"]


def test_the_description_is_an_ro_crate_that_lists_every_file(archive):
    """Root, descriptor, parts and files as RO-Crate 1.1 asks, every reference inside it resolved."""
    with tarfile.open(archive) as tar:
        names = tar.getnames()
        content = {name: tar.extractfile(name).read() for name in names}
    assert names[0] == METADATA
    crate = json.loads(content[METADATA])
    entities = {entity["@id"]: entity for entity in crate["@graph"]}
    assert len(entities) == len(crate["@graph"]), "an @id is there twice"
    assert crate["@context"][0] == "https://w3id.org/ro/crate/1.1/context"
    descriptor, root = entities[METADATA], entities["./"]
    assert descriptor["@type"] == "CreativeWork" and descriptor["about"] == {"@id": "./"}
    assert descriptor["conformsTo"] == {"@id": "https://w3id.org/ro/crate/1.1"}
    assert root["@type"] == "Dataset" and root["name"] and root["description"]
    assert root["datePublished"] == ABOUT.date and root["license"]["@id"] in entities

    def references(value):
        if isinstance(value, dict):
            if set(value) == {"@id"}:
                yield value["@id"]
            else:
                for inner in value.values():
                    yield from references(inner)
        elif isinstance(value, list):
            for inner in value:
                yield from references(inner)

    outside = {"https://w3id.org/ro/crate/1.1", "config/studies/mini.yaml"}
    assert set(references(crate["@graph"])) - outside <= entities.keys()

    def files_below(identifier: str):
        parts = entities[identifier].get("hasPart", [])
        for part in parts if isinstance(parts, list) else [parts]:
            entity = entities[part["@id"]]
            yield from [entity] if entity["@type"] == "File" else files_below(entity["@id"])

    listed = {unquote(entity["@id"]): entity for entity in files_below("./")}
    assert set(listed) == set(names) - {METADATA}
    for name, entity in listed.items():
        assert entity["contentSize"] == str(len(content[name]))
        assert entity["sha256"] == hashlib.sha256(content[name]).hexdigest()


def test_a_flipped_byte_is_refused_with_both_hashes(archive, refused):
    content = archive.read_bytes()
    archive.write_bytes(content.replace(b"w" * 1000, b"w" * 999 + b"x", 1))
    refused(archive, "model.safetensors has SHA-256 [0-9a-f]{64}, its description says [0-9a-f]{64}")


@pytest.mark.parametrize("kept", [0.2, 0.5, 0.9995])
def test_an_archive_that_was_cut_short_is_refused(archive, refused, kept):
    content = archive.read_bytes().rstrip(b"\0")
    archive.write_bytes(content[: int(len(content) * kept)])
    refused(archive, "is no whole archive|lacks results/")


def test_a_missing_member_is_refused(archive, refused):
    refused(
        rewritten(archive, lambda members: members.pop(2)), "lacks results/pretrain/.*, which its description lists"
    )


def test_an_unknown_member_is_refused(archive, refused):
    more = rewritten(archive, lambda members: members.append((named("results/pretrain/more"), b"")))
    refused(more, "which its description does not list")


def test_a_member_that_is_there_twice_is_refused(archive, refused):
    refused(rewritten(archive, lambda members: members.append(members[1])), "which its description does not list once")


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE])
def test_links_devices_and_folders_are_refused(archive, refused, kind):
    def replace(members) -> None:
        members[1] = (named(members[1][0].name, kind, "/etc/passwd"), b"")

    refused(rewritten(archive, replace), "is no plain file")


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "../outside",
        "results/pretrain/../../../outside",
        "results/pretrain/d2@0123456789/../../outside",
        "results/pretrain/d2@0123456789/.record.json",
        "results/pretrain/d2@0123456789//a",
        "results/pretrain/d2@0123456789/a\\b",
        "results/pretrain/d2@0123456789/a\ud800",
        f"results/pretrain/d2@0123456789/{'a' * 256}",
        f"results/pretrain/d2@0123456789{'/a' * 500}",
        "results/.locks/a",
        "config/studies/../../outside.yaml",
        "Snakefile",
        "src/xsa/cli.py",
    ],
)
def test_a_path_that_is_no_place_of_results_is_refused(archive, refused, path):
    refused(relisted(archive, lambda files: files[0].update({"@id": path})), "is no place of a study's results")


def test_a_file_without_hash_is_refused(archive, refused):
    refused(relisted(archive, lambda files: files[0].pop("sha256")), "no SHA-256 of results/pretrain")


def test_a_file_in_place_of_a_folder_is_refused(archive, refused):
    def nest(members) -> None:
        graph = json.loads(members[0][1])
        file = next(entity for entity in graph["@graph"] if entity["@type"] == "File")
        inside = file | {"@id": f"{file['@id']}/inside"}
        graph["@graph"].append(inside)
        content = json.dumps(graph).encode()
        members[0][0].size = len(content)
        info = named(unquote(inside["@id"]))
        info.size = members[1][0].size
        members[:2] = [(members[0][0], content), members[1], (info, members[1][1])]

    refused(rewritten(archive, nest), "as a file and as a folder")


def test_what_is_no_archive_is_refused(tmp_path, refused):
    (tmp_path / "x.tar").write_bytes(b"not a tar" * 100)
    refused(tmp_path / "x.tar", "is no whole archive")
    with tarfile.open(tmp_path / "y.tar", "w") as tar:
        tar.addfile(named("a"))
    refused(tmp_path / "y.tar", f"does not begin with {METADATA}")


def test_a_description_nested_without_end_is_refused(archive, refused):
    def nest(members) -> None:
        content = b'{"@graph":' + b"[" * 100_000
        members[0][0].size = len(content)
        members[0] = (members[0][0], content)

    refused(rewritten(archive, nest), "is no RO-Crate")


def edited_record(archive: Path, change) -> Path:
    """The archive with its record changed, and the description made to agree."""
    content = b""

    def edit(members) -> None:
        nonlocal content
        info, text = members[-1]
        record = json.loads(text)
        change(record)
        content = json.dumps(record).encode()
        info.size = len(content)
        members[-1] = (info, content)

    other = rewritten(archive, edit)

    def agree(files) -> None:
        files[-1].update(contentSize=str(len(content)), sha256=hashlib.sha256(content).hexdigest())

    return relisted(other, agree)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda record: record["recipe"]["settings"].update(of="d3"), "its recipe has digest"),
        (lambda record: record.update(label="d3"), "says label d3, its folder says d2"),
        (lambda record: record.update(stage="bpb"), "says stage bpb, its folder says pretrain"),
        (lambda record: record.pop("recipe"), "is no record"),
        (lambda record: record.pop("label"), "is no record"),
        (lambda record: record["files"].pop("config.json"), "its record says nothing"),
        (lambda record: record["files"]["config.json"].update(sha256="0" * 64), "its record says 0000"),
        (lambda record: record["files"].update({"../../x": {"bytes": 1, "sha256": "0" * 64}}), "is no record"),
        (lambda record: record["made"].update(notes={"loss": float("nan")}), "is no record"),
        (lambda record: record["made"].update(wall_seconds=float("inf")), "is no record"),
        (lambda record: record["made"].update(host="\ud800"), "is no record"),
        (lambda record: record["made"].update(packages=["torch"]), "is no record"),
        (lambda record: record["made"].update(wall_seconds="long"), "is no record"),
        (lambda record: record.update(adopted="yes"), "is no record"),
    ],
)
def test_a_record_that_disagrees_with_its_place_or_files_is_refused(archive, refused, change, sentence):
    refused(edited_record(archive, change), sentence)


def test_a_result_that_is_there_is_kept(archive, bring, tmp_path):
    bring(archive)
    (model,) = (tmp_path / "there").rglob("model.safetensors")
    inode = model.stat().st_ino
    assert bring(archive) == 0 and model.stat().st_ino == inode


def test_a_result_that_is_there_and_damaged_is_not_taken_for_whole(archive, bring, tmp_path):
    bring(archive)
    (config,) = (tmp_path / "there").rglob("config.json")
    config.write_bytes(b"{ ")
    with pytest.raises(UserError, match=r"config\.json has changed since it was made"):
        bring(archive)
    assert config.read_bytes() == b"{ "


def test_missing_files_are_added_to_what_is_there(archive, bring, tmp_path):
    bring(archive)
    (model,) = (tmp_path / "there").rglob("model.safetensors")
    config = model.with_name("config.json")
    inode = config.stat().st_ino
    model.unlink()
    assert bring(archive) == 1
    assert model.read_bytes() == FILES["model.safetensors"] and config.stat().st_ino == inode


def test_a_conflict_with_one_result_keeps_all_others_out(tmp_path, bring, folder):
    other = write_result(tmp_path / "results", "bpb", "d2", {"bpb.json": b"1"})
    members = [*members_of(folder), *members_of(other)]
    write_archive(tmp_path / "two.tar", description(members), members, no_progress)
    write_result(tmp_path / "there", "bpb", "d2", {"bpb.json": b"2"})
    sentence = (
        f"{hashlib.sha256(b'2').hexdigest()}, the one that would be imported has {hashlib.sha256(b'1').hexdigest()}"
    )
    with pytest.raises(UserError, match=sentence):
        bring(tmp_path / "two.tar")
    assert [path.name for path in (tmp_path / "there").iterdir()] == ["bpb"]


def test_snakemakes_empty_folder_is_no_obstacle(archive, folder, bring, tmp_path):
    (tmp_path / "there" / "pretrain" / folder.name).mkdir(parents=True)
    assert bring(archive) == 1


def test_an_interrupted_import_leaves_nothing(archive, bring, tmp_path, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(archive_module._Hashing, "read", stop)
    with pytest.raises(KeyboardInterrupt):
        bring(archive)
    assert list((tmp_path / "there").rglob("*")) == []


def test_an_interrupted_export_leaves_nothing_and_keeps_the_archive_before(archive, folder):
    before = archive.read_bytes()
    members = members_of(folder)

    def stop(count: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_archive(archive, description(members), members, stop)
    assert archive.read_bytes() == before and not list(archive.parent.glob(".*.part"))


@pytest.mark.parametrize("content", [b"w" * 2_999_999, b"w" * 3_000_001, b"v" + b"w" * 2_999_999])
def test_a_file_that_changed_since_its_record_is_not_exported(folder, tmp_path, content):
    members = members_of(folder)
    (folder / "model.safetensors").write_bytes(content)
    with pytest.raises(UserError, match="has changed since it was made: its record says SHA-256"):
        write_archive(tmp_path / "mini.tar", description(members), members, no_progress)
    assert not list(tmp_path.glob("*.tar")) and not list(tmp_path.glob(".*.part"))


def test_an_import_beside_a_job_that_just_made_the_result_keeps_the_jobs(archive, folder, tmp_path):
    results = tmp_path / "there"
    with staging(results) as staged:
        (arrival,) = arrivals(staged, unpack(archive, staged, no_progress), results, "mini.tar")
        shutil.copytree(folder, arrival.final)
        inode = (arrival.final / "config.json").stat().st_ino
        assert not settle(arrival)
    assert (arrival.final / "config.json").stat().st_ino == inode
