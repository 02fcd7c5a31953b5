"""Downloads from a server that fails in the ways servers fail."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import random
import urllib.request

import pytest

from xsa.data.datalock import DataLock
from xsa.data.download import TRIES, Published, _Redirects, _Said, download
from xsa.data.hub import hub_file, other_file
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


def test_a_connection_that_stalls_is_dropped_and_goes_on_where_it_was(fetch, server, monkeypatch):
    monkeypatch.setattr("xsa.data.download.TIMEOUT_SECONDS", 0.3)
    server.publish("/a", BODY)
    server.first("/a", (200, {"Stall": 1_500_000}))
    assert fetch("/a") == BODY
    assert int(server.requests[1][1]["Range"].removeprefix("bytes=").removesuffix("-")) >= 1 << 20
    assert fetch.waits == [1.0]


def leave_part(fetch, server, body: bytes, after: int) -> None:
    """Make a part of `after` bytes by a download that is given up."""
    server.publish("/a", body)
    server.first("/a", *[(200, {"Cut": after})] + [(503, {})] * TRIES)
    with pytest.raises(UserError):
        fetch("/a")
    fetch.waits.clear()


def test_a_part_that_is_longer_than_the_server_s_file_is_thrown_away(fetch, server):
    leave_part(fetch, server, BODY, 2_000_000)
    server.publish("/a", BODY[:1000])
    server.first("/a", (416, {"Content-Range": "bytes */1000"}))
    assert fetch("/a") == BODY[:1000]
    assert ["Range" in headers for _, headers in server.requests[-2:]] == [True, False]


def test_a_part_that_is_whole_already_is_taken_as_it_is(fetch, server):
    leave_part(fetch, server, BODY, len(BODY) - 1)
    (part,) = (fetch.folder / "state").glob("*.part")
    part.write_bytes(BODY)
    server.first("/a", (416, {"Content-Range": f"bytes */{len(BODY)}"}))
    assert fetch("/a") == BODY
    assert fetch.waits == []


def test_a_server_that_goes_on_with_another_file_is_not_believed(fetch, server):
    leave_part(fetch, server, BODY, 500_000)
    other = BODY[::-1]

    def careless(request):
        if "Range" in request.headers:
            span = f"bytes 500000-{len(other) - 1}/{len(other)}"
            return 206, {"ETag": '"other"', "Content-Range": span}, other[500_000:]
        return 200, {"ETag": '"other"'}, other

    server.answers["/a"] = careless
    assert fetch("/a") == other


def test_content_that_changes_at_every_request_never_becomes_a_mixture(fetch, server):
    bodies = [bytes([number]) * 1_000_000 for number in range(4)]

    def changing(request):
        body = bodies[len(server.requests) - 1]
        cut = {"Cut": 600_000} if len(server.requests) < 4 else {}
        return 200, {"ETag": f'"{body[0]}"'} | cut, body

    server.answers["/a"] = changing
    assert fetch("/a") == bodies[3]


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


def test_a_token_is_kept_on_its_own_host_and_not_shown_unencrypted(fetch, server):
    server.publish("/file", BODY)
    server.answers["/a"] = lambda request: (302, {"Location": "/file"}, b"")
    assert fetch("/a", headers={"Authorization": "Bearer secret"}) == BODY
    assert [headers.get("Authorization") for _, headers in server.requests] == ["Bearer secret"] * 2
    request = urllib.request.Request("https://hub/a", headers={"Authorization": "Bearer secret"})
    onward = _Redirects(_Said()).redirect_request(request, None, 302, "", {}, "http://hub/b")
    assert onward.get_header("Authorization") is None


def test_redirects_without_end_are_given_up(fetch, server):
    server.answers["/a"] = lambda request: (302, {"Location": "/a"}, b"")
    with pytest.raises(UserError, match="a is needed"):
        fetch("/a")


def test_the_proxy_of_the_environment_is_asked(fetch, server, monkeypatch):
    monkeypatch.delenv("no_proxy")
    monkeypatch.setenv("http_proxy", server.url)
    server.publish("http://hub.invalid/a", BODY)
    published = Published("a", "http://hub.invalid/a")
    target, lock = fetch.folder / "a", DataLock(fetch.lock)
    download(published, target, fetch.folder / "state", lock, Progress(), lambda path: None)
    assert target.read_bytes() == BODY


def test_progress_is_told_in_bytes(tmp_path, server, monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    server.publish("/a", BODY)
    progress, steps = Progress(), []
    monkeypatch.setattr(progress, "step", lambda done, total, unit: steps.append((done, total, unit)))
    lock = DataLock(tmp_path / "lock")
    download(Published("a", f"{server.url}/a"), tmp_path / "a", tmp_path / "state", lock, progress, lambda path: None)
    assert steps[-1] == (3_000_000, 3_000_000, "byte") and len(steps) == 3


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


def test_a_dataset_that_is_no_name_is_an_error(hub, tmp_path):
    with pytest.raises(UserError, match="owner/name"):
        hub_file("no such/name/here", "main", "a.parquet", DataLock(tmp_path / "data.lock"))


def test_the_hub_may_be_switched_off(hub, monkeypatch, tmp_path):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    published = hub_file("someone/texts", "main", "a.parquet", DataLock(tmp_path / "data.lock"))
    assert published.offline == "HF_HUB_OFFLINE is set"
    assert "hf download someone/texts a.parquet --repo-type dataset --revision main" in published.bring
    assert other_file("eval_bundle.zip", "http://elsewhere/eval_bundle.zip").offline == "HF_HUB_OFFLINE is set"


OLD, NEW = "a" * 40, "b" * 40


def hub_of(server, commit: str, body: bytes, told: bytes | None = None) -> None:
    """A hub whose main is at `commit`: it names the commit and the hash, and sends the client on to another place."""
    sha256 = hashlib.sha256(told or body).hexdigest()
    headers = {"X-Repo-Commit": commit, "X-Linked-Etag": f'"{sha256}"', "Location": f"/store/{commit}"}
    for revision in ("main", commit):
        for file in ("a", "b"):
            path = f"/datasets/someone/texts/resolve/{revision}/{file}"
            server.answers[path] = lambda request: (302, headers, b"")
    server.publish(f"/store/{commit}", body)


def take(tmp_path, file: str) -> bytes:
    lock = DataLock(tmp_path / "data.lock")
    published = hub_file("someone/texts", "main", file, lock)
    download(published, tmp_path / file, tmp_path / "state", lock, Progress(), lambda path: None, sleep=lambda s: None)
    return (tmp_path / file).read_bytes()


def test_a_branch_means_the_commit_that_it_meant_at_first(hub, tmp_path):
    hub_of(hub, OLD, b"old")
    assert take(tmp_path, "a") == b"old"
    assert json.loads((tmp_path / "data.lock").read_text())["someone/texts@main"] == {"commit": OLD}
    moved = dict(hub.answers)
    hub_of(hub, NEW, b"new")
    hub.answers |= {path: answer for path, answer in moved.items() if OLD in path}
    assert take(tmp_path, "b") == b"old"
    assert f"/datasets/someone/texts/resolve/{OLD}/b" in [path for path, _ in hub.requests]


def test_a_branch_that_moves_between_two_jobs_is_refused(hub, tmp_path, monkeypatch):
    hub_of(hub, NEW, b"new")
    lock = DataLock(tmp_path / "data.lock")
    published = hub_file("someone/texts", "main", "a", lock)
    lock.pin("someone/texts@main", OLD)
    with pytest.raises(UserError, match=f"moved from commit {OLD} to {NEW}.*run again"):
        download(published, tmp_path / "a", tmp_path / "state", lock, Progress(), lambda path: None)
    assert not (tmp_path / "a").exists()


def test_a_commit_needs_no_pin(hub, tmp_path):
    assert hub_file("someone/texts", OLD, "a", DataLock(tmp_path / "data.lock")).branch is None


def test_bytes_that_are_not_what_the_hub_says_it_has_are_refused(hub, tmp_path):
    hub_of(hub, OLD, b"damaged", told=b"whole")
    with pytest.raises(UserError, match=r"was to have SHA-256 [0-9a-f]{64} .*damaged on the way"):
        take(tmp_path, "a")
    assert not (tmp_path / "data.lock").exists()
