"""The stages `bundle` and `chatsets`: local, published (on a server of this machine) and built in; and the archive."""

from __future__ import annotations

import csv
import io
import json
import zipfile

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from xsa.data import sets
from xsa.data.bundle import check_bundle, unzip_bundle
from xsa.store.errors import UserError
from xsa.study.sources import HashCache
from xsa.study.stages import SetsStage

CORE = """icl_tasks:
- {label: choose, dataset_uri: a/choose.jsonl, num_fewshot: [0], icl_task_type: multiple_choice}
- {label: again, dataset_uri: a/choose.jsonl, num_fewshot: [10], icl_task_type: multiple_choice}
- {label: fit, dataset_uri: a/fit.jsonl, num_fewshot: [0], icl_task_type: schema}
- {label: say, dataset_uri: say.jsonl, num_fewshot: [10], icl_task_type: language_modeling}
"""
LINES = {
    "eval_data/a/choose.jsonl": [{"query": "q", "choices": ["a", "b"], "gold": 1}] * 12,
    "eval_data/a/fit.jsonl": [{"context_options": ["a", "b"], "continuation": "c", "gold": 0}],
    "eval_data/say.jsonl": [{"context": "a", "continuation": "b"}] * 11,
}


def bundle_files() -> dict[str, bytes]:
    meta = io.StringIO()
    writer = csv.writer(meta)
    writer.writerows([["Eval Task", "Random baseline"], *[[label, 25] for label in ("choose", "again", "fit", "say")]])
    lines = {name: "".join(json.dumps(item) + "\n" for item in items).encode() for name, items in LINES.items()}
    return {"core.yaml": CORE.encode(), "eval_meta_data.csv": meta.getvalue().encode()} | lines


def write_files(folder, files):
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def archive(path, files):
    with zipfile.ZipFile(path, "w") as opened:
        for name, content in files.items():
            opened.writestr(name, content)
    return path


def inside(files):
    return {f"eval_bundle/{name}": content for name, content in files.items()}


def identity(folder, tmp_path):
    return HashCache(tmp_path / "hashes.json").folder_sha256(folder, "bundle.path")


def test_a_local_bundle_is_copied_and_counted(tmp_path, run_stage):
    folder = write_files(tmp_path / "mine", bundle_files())
    settings = SetsStage(kind="local", sha256=identity(folder, tmp_path))
    out = run_stage("bundle", settings, source={"path": str(folder)})
    for name, content in bundle_files().items():
        assert (out / name).read_bytes() == content
    notes = json.loads((out / "record.json").read_text())["made"]["notes"]
    assert notes["items"] == {"a/choose.jsonl": 12, "a/fit.jsonl": 1, "say.jsonl": 11}


def test_a_local_folder_that_changed_since_the_plan_is_refused(tmp_path, run_stage):
    folder = write_files(tmp_path / "mine", bundle_files())
    settings = SetsStage(kind="local", sha256=identity(folder, tmp_path))
    (folder / "eval_data" / "say.jsonl").write_text('{"context": "x", "continuation": "y"}\n' * 11)
    with pytest.raises(UserError, match="mine has changed since the plan was made"):
        run_stage("bundle", settings, source={"path": str(folder)})


@pytest.mark.parametrize(
    ("name", "content", "what"),
    [
        ("core.yaml", b"icl_tasks: [", r"core\.yaml is not readable YAML"),
        ("core.yaml", b"icl_tasks:\n- {label: a}\n", r"core\.yaml, task 1 \(a\): icl_task_type is None"),
        ("core.yaml", CORE.replace("schema", "essay").encode(), "'essay'"),
        ("eval_meta_data.csv", b"Eval Task,Random baseline\nchoose,25\n", "no row for the task 'again'"),
        (
            "eval_data/say.jsonl",
            b'{"context": "a", "continuation": "b"}\n{"context": "a"}\n',
            r"say\.jsonl, line 2: no field `continuation`",
        ),
        (
            "eval_data/say.jsonl",
            b'{"context": "a", "continuation": "b"}\n{"con',
            r"say\.jsonl, line 2: not a line of JSON",
        ),
        (
            "eval_data/say.jsonl",
            b'{"context": "a", "continuation": "b"}\n',
            r"holds 1 items, but the task say shows 10",
        ),
        ("eval_data/say.jsonl", b'{"context": "a", "continuation": 3}\n', r"line 1: `continuation` must be a text"),
        ("eval_meta_data.csv", b"Eval Task,Random baseline\nchoose,lots\n", "row 2: Random baseline is 'lots'"),
        ("core.yaml", CORE.replace("say.jsonl", "../../say.jsonl").encode(), "it must be a path inside eval_data/"),
        ("eval_data/say.jsonl", b"", r"say\.jsonl holds no items"),
        (
            "eval_data/a/choose.jsonl",
            b'{"query": "q", "choices": ["a", "b"], "gold": 2}\n',
            r"choose\.jsonl, line 1: `gold` is 2",
        ),
    ],
)
def test_a_bundle_that_is_not_as_published_is_refused_with_the_place(tmp_path, name, content, what):
    folder = write_files(tmp_path, bundle_files() | {name: content})
    with pytest.raises(UserError, match=what):
        check_bundle(folder)


def test_a_bundle_without_a_task_file_is_refused(tmp_path):
    folder = write_files(tmp_path, bundle_files())
    (folder / "eval_data" / "say.jsonl").unlink()
    with pytest.raises(UserError, match=r"say\.jsonl cannot be read .*core\.yaml names it"):
        check_bundle(folder)


def test_only_what_is_needed_leaves_the_archive(tmp_path):
    more = {
        "eval_bundle/openai/gpt2.csv": b"x",
        "__MACOSX/eval_bundle/._core.yaml": b"x",
        "eval_bundle/eval_data/": b"",
    }
    unzip_bundle(archive(tmp_path / "a.zip", inside(bundle_files()) | more), tmp_path / "out")
    written = {
        path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*") if path.is_file()
    }
    assert written == set(bundle_files())


@pytest.mark.parametrize(
    "name", ["../escape", "eval_bundle/eval_data/../../../escape", "/escape", "eval_bundle\\..\\escape"]
)
def test_a_path_that_leads_out_of_the_archive_is_refused(tmp_path, name):
    path = archive(tmp_path / "a.zip", inside(bundle_files()) | {name: b"x"})
    with pytest.raises(UserError, match="leads out of it"):
        unzip_bundle(path, tmp_path / "out" / "deep")
    assert not list(tmp_path.rglob("escape"))


def test_an_archive_that_is_cut_off_or_another_is_refused(tmp_path):
    path = archive(tmp_path / "a.zip", inside(bundle_files()))
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(UserError, match="no whole zip file"):
        unzip_bundle(path, tmp_path / "out")
    with pytest.raises(UserError, match="not the CORE bundle"):
        unzip_bundle(archive(tmp_path / "b.zip", {"readme": b"x"}), tmp_path / "out")


def test_an_archive_that_would_fill_the_disk_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("xsa.data.bundle.LARGEST", 100)
    with pytest.raises(UserError, match="unpack to more than"):
        unzip_bundle(archive(tmp_path / "a.zip", inside(bundle_files())), tmp_path / "out")


def test_the_published_bundle_is_fetched_and_unpacked(tmp_path, run_stage, server, monkeypatch):
    monkeypatch.setattr(sets, "BUCKET", server.url)
    monkeypatch.setenv("no_proxy", "*")
    server.publish("/eval_bundle.zip", archive(tmp_path / "a.zip", inside(bundle_files())).read_bytes())
    source = {"data_lock": str(tmp_path / "data.lock")}
    out = run_stage("bundle", SetsStage(kind="published"), source=source)
    assert (out / "eval_data" / "say.jsonl").read_bytes() == bundle_files()["eval_data/say.jsonl"]
    assert list(json.loads((tmp_path / "data.lock").read_text())) == ["eval_bundle.zip"]


def test_the_published_chat_sets_are_fetched_and_joined(tmp_path, run_stage, server, monkeypatch):
    parts = {}
    for number in range(2):
        messages = [{"role": "user", "content": f"{number}"}, {"role": "assistant", "content": "yes"}]
        parts[f"data/train-{number}.parquet"] = table = io.BytesIO()
        pq.write_table(pa.Table.from_pylist([{"messages": messages, "source": "x"}] * 3), table)
    monkeypatch.setattr(sets, "CHAT_FILES", {"smoltalk/train.parquet": ("someone/talk", tuple(parts))})
    monkeypatch.setattr(sets, "BUCKET", server.url)
    monkeypatch.setattr(sets, "WORDS", f"{server.url}/words_alpha.txt")
    monkeypatch.setenv("HF_ENDPOINT", server.url)
    monkeypatch.setenv("no_proxy", "*")
    for name, content in parts.items():
        server.publish(f"/datasets/someone/talk/resolve/main/{name}", content.getvalue())
    server.publish("/words_alpha.txt", b"one\r\ntwo\r\n")
    line = json.dumps([{"role": "user", "content": "you?"}, {"role": "assistant", "content": "I"}])
    server.publish("/identity_conversations.jsonl", line.encode())
    source = {"data_lock": str(tmp_path / "data.lock")}
    out = run_stage("chatsets", SetsStage(kind="published"), source=source)
    rows = pq.read_table(out / "smoltalk" / "train.parquet").to_pylist()
    assert [row["messages"][0]["content"] for row in rows] == ["0"] * 3 + ["1"] * 3
    assert (out / "spellingbee" / "words_alpha.txt").read_bytes() == b"one\r\ntwo\r\n"
    assert len(json.loads((tmp_path / "data.lock").read_text())) == 4


def test_the_published_files_are_those_that_the_readers_want():
    from xsa.data.chat.check import READERS

    assert set(READERS) - set(sets.CHAT_FILES) == {
        "identity/identity_conversations.jsonl",
        "spellingbee/words_alpha.txt",
    }
    assert set(sets.CHAT_FILES) <= set(READERS)


@pytest.mark.parametrize("stage", ["bundle", "chatsets"])
def test_the_builtin_sets_pass_the_checks_of_published_ones(run_stage, stage):
    pytest.importorskip("xsa.data.world")
    run_stage(stage, SetsStage(kind="builtin", seed=0, items=16))


def test_a_result_is_not_taken_for_a_folder_of_sets(tmp_path, run_stage):
    folder = write_files(tmp_path / "mine", bundle_files() | {"record.json": b"{}"})
    settings = SetsStage(kind="local", sha256=identity(folder, tmp_path))
    with pytest.raises(UserError, match="is itself a result"):
        run_stage("bundle", settings, source={"path": str(folder)})
