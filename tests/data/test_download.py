"""Downloads from a server that fails in the ways servers fail."""

from __future__ import annotations

import json
import multiprocessing
import random

import pytest

from xsa.data.datalock import DataLock
from xsa.data.download import TRIES, Published, download
from xsa.data.hub import hub_file
from xsa.store.errors import UserError
from xsa.store.files import sha256_file
from xsa.store.progress import Progress
from xsa.study.stages import ShardStage

BODY = random.Random(0).randbytes(3_000_000)


@pytest.fixture
def fetch(tmp_path, server, monkeypatch):
    """`fetch(path)` downloads a file of the server; `fetch.waits` are the seconds it would have waited between tries."""
    monkeypatch.delenv("XSA_DOWNLOADS", raising=False)
    monkeypatch.setenv("no_proxy", "*")

    def run(path: str, validate=lambda path: None, state="state", **more) -> bytes:
        target = tmp_path / "out" / path.strip("/")
        published = Published(path.strip("/"), server.url + path, **more)
        lock = DataLock(tmp_path / "config" / "data.lock")
        run.origin = download(published, target, tmp_path / state, lock, Progress(), validate, sleep=run.waits.append)
        return target.read_bytes()

    run.waits, run.lock, run.folder = [], tmp_path / "config" / "data.lock", tmp_path
    return run


def test_a_file_arrives_whole_and_its_hash_is_kept(fetch, server):
    server.publish("/a", BODY)
    assert fetch("/a") == BODY
    entry = json.loads(fetch.lock.read_text())["a"]
    assert entry == {"sha256": sha256_file(fetch.folder / "out" / "a"), "bytes": len(BODY)}
    assert fetch.waits == [] and fetch.origin == server.url + "/a"
    assert not list((fetch.folder / "state").iterdir())


def test_a_connection_that_breaks_goes_on_where_it_was(fetch, server):
    server.publish("/a", BODY)
    server.first("/a", (200, {"Cut": 1_100_000}), (200, {"Cut": 1_000_000}))
    assert fetch("/a") == BODY
    asked = [headers.get("Range") for _, headers in server.requests]
    assert asked == [None, "bytes=1100000-", "bytes=2100000-"]


def test_a_killed_job_goes_on_where_it_was(fetch, server):
    server.publish("/a", BODY)
    server.first("/a", *[(200, {"Cut": 500_000})] + [(503, {})] * TRIES)
    with pytest.raises(UserError, match="503"):
        fetch("/a")
    server.publish("/a", BODY)
    assert fetch("/a") == BODY
    assert server.requests[-1][1]["Range"] == "bytes=500000-"


def test_a_file_that_changed_between_two_tries_is_read_from_its_start(fetch, server):
    server.publish("/a", BODY)
    server.first("/a", *[(200, {"Cut": 500_000})] + [(503, {})] * TRIES)
    with pytest.raises(UserError):
        fetch("/a")
    server.publish("/a", BODY[::-1])
    assert fetch("/a") == BODY[::-1]


def test_a_server_that_cannot_resume_is_read_from_its_start(fetch, server):
    server.answers["/a"] = lambda request: (200, {}, BODY)
    server.first("/a", (200, {"Cut": 500_000}))
    assert fetch("/a") == BODY
    assert all("Range" not in headers for _, headers in server.requests)


def test_a_server_that_always_breaks_off_is_given_up(fetch, server):
    server.answers["/a"] = lambda request: (200, {"Cut": 1000 + len(server.requests)}, BODY)
    with pytest.raises(UserError, match=rf"a is needed.*{TRIES} tries failed.*of 3,000,000 bytes.*XSA_DOWNLOADS"):
        fetch("/a")
    assert len(server.requests) == TRIES


def test_errors_of_the_server_are_tried_again_after_growing_waits(fetch, server):
    server.publish("/a", BODY)
    server.first("/a", (500, {}), (503, {"Retry-After": "7"}), (502, {}))
    assert fetch("/a") == BODY
    assert fetch.waits == [1.0, 7.0, 4.0]


@pytest.mark.parametrize(("status", "advice"), [(404, "check dataset, revision"), (403, "HF_TOKEN")])
def test_a_refusal_is_not_tried_again(fetch, server, status, advice):
    server.answers["/a"] = lambda request: (status, {}, b"")
    with pytest.raises(UserError, match=rf"answered {status}.*{advice}"):
        fetch("/a")
    assert len(server.requests) == 1


def test_content_that_changed_against_the_lock_is_refused_with_both_hashes(fetch, server):
    server.publish("/a", BODY)
    fetch("/a")
    before = fetch.lock.read_text()
    server.publish("/a", BODY[::-1])
    kept = json.loads(before)["a"]["sha256"]
    with pytest.raises(UserError, match=rf"a has changed.*{kept}.*[0-9a-f]{{64}}.*Pin"):
        fetch("/a")
    assert fetch.lock.read_text() == before
    assert not (fetch.folder / "out" / "a").exists()


def test_a_file_that_is_not_valid_never_enters_the_lock(fetch, server):
    def refuse(path):
        raise UserError("not a shard")

    server.publish("/a", b"<html>log in</html>")
    with pytest.raises(UserError, match="not a shard"):
        fetch("/a", validate=refuse)
    assert not fetch.lock.exists()


def test_a_file_brought_by_hand_is_taken_and_checked(fetch, server, monkeypatch):
    server.publish("/a", BODY)
    fetch("/a")
    monkeypatch.setenv("XSA_DOWNLOADS", str(fetch.folder / "brought"))
    (fetch.folder / "brought").mkdir()
    (fetch.folder / "brought" / "a").write_bytes(BODY)
    assert fetch("/a") == BODY
    assert fetch.origin == str(fetch.folder / "brought" / "a") and len(server.requests) == 1
    (fetch.folder / "brought" / "a").write_bytes(BODY[:-1])
    with pytest.raises(UserError, match=r"has changed.*brought/a has"):
        fetch("/a")


def test_offline_says_what_is_missing_and_how_to_bring_it(fetch, server):
    with pytest.raises(UserError, match=r"a is needed.*HF_HUB_OFFLINE is set.*XSA_DOWNLOADS=<folder>, or bring it so"):
        fetch("/a", offline="HF_HUB_OFFLINE is set", bring="bring it so")
    assert server.requests == []


def test_a_token_is_not_shown_to_the_host_that_a_redirect_leads_to(fetch, server):
    server.publish("/file", BODY)
    elsewhere = server.url.replace("127.0.0.1", "localhost")
    server.answers["/a"] = lambda request: (302, {"Location": f"{elsewhere}/file"}, b"")
    assert fetch("/a", headers={"Authorization": "Bearer secret"}) == BODY
    shown = [headers.get("Authorization") for _, headers in server.requests]
    assert shown == ["Bearer secret", None]


def test_many_jobs_may_write_the_lock_at_once(tmp_path):
    path = tmp_path / "data.lock"
    start = multiprocessing.get_context("fork")
    jobs = [start.Process(target=DataLock(path).keep, args=(f"file {n}", f"{n:064x}", n)) for n in range(8)]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join()
    assert len(json.loads(path.read_text())) == 8


def test_a_lock_that_is_no_lock_is_an_error(tmp_path):
    path = tmp_path / "data.lock"
    path.write_text('{"a": {"sha256": "short"}}')
    with pytest.raises(UserError, match=r"data\.lock is not as"):
        DataLock(path).knows("a", "0" * 64, "somewhere")


@pytest.fixture
def hub(server, monkeypatch, tmp_path):
    monkeypatch.setenv("HF_ENDPOINT", server.url)
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.delenv("XSA_DOWNLOADS", raising=False)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    return server


def test_a_hub_shard_is_fetched_from_the_endpoint_at_its_revision(hub, tmp_path, run_stage, write_shard):
    shard = write_shard(tmp_path / "a.parquet", ["one", "two"])
    hub.publish("/datasets/someone/texts/resolve/abc123/data/shard_00001.parquet", shard.read_bytes())
    settings = ShardStage(kind="hub", name="data/shard_00001.parquet", dataset="someone/texts", revision="abc123")
    lock = tmp_path / "config" / "data.lock"
    out = run_stage("shard", settings, source={"data_lock": str(lock)})
    assert (out / "shard_00001.parquet").read_bytes() == shard.read_bytes()
    assert list(json.loads(lock.read_text())) == ["someone/texts@abc123/data/shard_00001.parquet"]


def test_a_shard_in_the_hubs_cache_needs_no_network(hub, tmp_path, run_stage, write_shard, monkeypatch):
    commit = "0" * 40
    cache = tmp_path / "hub" / "datasets--someone--texts"
    write_shard(cache / "snapshots" / commit / "s.parquet", ["one"])
    (cache / "refs").mkdir()
    (cache / "refs" / "main").write_text(commit)
    settings = ShardStage(kind="hub", name="s.parquet", dataset="someone/texts", revision="main")
    run_stage("shard", settings, source={"data_lock": str(tmp_path / "data.lock")})
    assert hub.requests == []


def test_a_dataset_that_is_no_name_is_an_error(hub):
    with pytest.raises(UserError, match="owner/name"):
        hub_file("no such/name/here", "main", "a.parquet")


def test_the_hub_may_be_switched_off(hub, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    published = hub_file("someone/texts", "main", "a.parquet")
    assert published.offline == "HF_HUB_OFFLINE is set"
    assert "hf download someone/texts a.parquet --repo-type dataset --revision main" in published.bring
