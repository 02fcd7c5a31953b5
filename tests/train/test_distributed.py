"""Processes that train together are one: the same stream, losses and weights, one result, and one voice when they fail."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import socket
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file

from tests.train.conftest import Results, model_config, pretrain_settings
from tests.train.process import draw
from xsa.model.nanochat import NanoChat
from xsa.store.errors import UserError
from xsa.store.produce import produce
from xsa.store.progress import Progress
from xsa.store.status import read_status
from xsa.study.stages import BpbStage, ScheduleStage
from xsa.train.distributed import Ranks
from xsa.train.state import States

ROOT = Path(__file__).parents[2]
STEPS, STOP = 20, 8


class World(Results):
    """Jobs on 84 rows, made by this process or by several others."""

    def __init__(self, root: Path):
        super().__init__(root)
        self.inputs = {
            "rows": [self.rows(50, seed=1), self.rows(34, seed=2)],
            "validation": self.rows(8, seed=9),
            "tokenizer": self.tokenizer(),
        }

    def pretraining(self, name: str, **changes):
        """Twenty steps of a model of three layers, at rates so low that rounding is not amplified."""
        settings = {
            "model": model_config(n_layer=3, xsa_layers=(0, 1, 2)),
            "steps": STEPS,
            "schedule": ScheduleStage(warmup_steps=400, warmdown_ratio=0.5, final_lr_frac=0.1),
        }
        job = self.job("pretrain", name, pretrain_settings(**settings | changes), **self.inputs)
        job.progress = Progress()
        return job

    def alone(self, job) -> Path:
        """The job's result, made by this process."""
        return produce(job, {}, job.out.name.rpartition("@")[2], "")

    def start(self, job, world: int, torchrun: bool = False, **plan) -> list[subprocess.Popen]:
        """Processes that make the job together; with `torchrun` the one that starts them."""
        (self.root / "job.pickle").write_bytes(pickle.dumps(job))
        (self.root / "plan.json").write_text(json.dumps({"job": str(self.root / "job.pickle"), **plan}))
        module = ["-m", "tests.train.process", str(self.root / "plan.json")]
        if torchrun:
            launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(world)]
            return [spawn([*launcher, *module], {})]
        return spawn_ranks(module, world)

    def together(self, job, world: int, **plan) -> tuple[list[int], str]:
        """Exit codes and all that was printed of `world` processes that made the job."""
        return finished(self.start(job, world, **plan))


def spawn(arguments: list[str], environment: dict[str, str]) -> subprocess.Popen:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.Popen(
        [sys.executable, *arguments], cwd=ROOT, env=os.environ | {"OMP_NUM_THREADS": "1"} | environment, **pipes
    )


def spawn_ranks(arguments: list[str], world: int) -> list[subprocess.Popen]:
    """One process a rank, told who it is as torchrun would."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    meeting = {"WORLD_SIZE": str(world), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    return [spawn(arguments, meeting | {"RANK": str(rank), "LOCAL_RANK": str(rank)}) for rank in range(world)]


def finished(processes: list[subprocess.Popen]) -> tuple[list[int], str]:
    try:
        said = [process.communicate(timeout=120)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    return [process.returncode for process in processes], "".join(said)


def record(folder: Path) -> dict:
    return json.loads((folder / "record.json").read_text())["made"]["notes"]


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(NanoChat, "init_weights", draw)
        yield World(tmp_path_factory.mktemp("world") / "results")


@pytest.fixture(scope="module")
def undisturbed(world):
    """What one process makes of twenty steps."""
    torch.set_num_threads(1)
    return world.alone(world.pretraining("undisturbed"))


def same(folder: Path, other: Path) -> None:
    """Both results have the same stream, and losses, norms, looks and weights within float error."""
    assert record(folder)["data_stream_sha256"] == record(other)["data_stream_sha256"]
    a, b = (pq.read_table(one / "log.parquet").to_pydict() for one in (folder, other))
    assert len(a["loss"]) == STEPS and a["tokens"] == b["tokens"]
    assert a["loss"] == pytest.approx(b["loss"], abs=2e-5)
    assert a["grad_norm"] == pytest.approx(b["grad_norm"], rel=2e-4)
    bpb = [pq.read_table(one / "validation.parquet")["bpb"].to_pylist() for one in (folder, other)]
    assert bpb[0] == pytest.approx(bpb[1], abs=2e-5)
    for file in ("model.safetensors", "optimizer.safetensors"):
        mine, theirs = (load_file(one / file) for one in (folder, other))
        assert mine.keys() == theirs.keys()
        bound = 2e-5 if file.startswith("model") else 3e-4
        for name, tensor in mine.items():
            assert (tensor - theirs[name]).abs().max() <= bound * theirs[name].abs().max(), name


def left_nothing(job) -> None:
    """No result, no private folder, no lock."""
    assert not job.out.exists() and not list(job.out.parent.glob(f".{job.out.name}.*.part"))
    assert not [path for path in job.out.parents[1].rglob("*.lock") if job.out.name in path.name]


def test_two_processes_train_as_one(world, undisturbed):
    job = world.pretraining("two")
    codes, said = world.together(job, 2)
    assert codes == [0, 0], said
    notes = record(job.out)
    assert notes["processes"] == 2 and notes["micro_batch"] == 2
    same(job.out, undisturbed)
    assert world.together(job, 2)[0] == [0, 0] and record(job.out) == notes, "what is there is not made again"


def test_a_state_written_by_two_processes_goes_on_with_one_and_with_four(world, undisturbed):
    """They are stopped by a signal to torchrun itself."""
    job = world.pretraining("stopped")
    codes, said = finished(world.start(job, 2, torchrun=True, rank=0, step=STOP, act="term launcher"))
    assert codes != [0] and f"step_{STOP:08d}" in [state.name for state in States(job.state, print).all()], said
    left_nothing(job)
    one, four = world.pretraining("one"), world.pretraining("four")
    for other in (one, four):
        shutil.copytree(job.state, other.state)
    same(world.alone(one), undisturbed)
    codes, said = world.together(four, 4)
    assert codes == [0] * 4, said
    assert len(pq.read_table(four.out / "log.parquet")) == STEPS and record(four.out)["processes"] == 4
    same(four.out, undisturbed)


def test_a_signal_to_one_process_stops_all_with_75(world):
    job = world.pretraining("one signal")
    codes, said = world.together(job, 2, rank=1, step=2, act="term")
    assert codes == [75, 75], said
    assert [state.name for state in States(job.state, print).all()] == ["step_00000002"]
    left_nothing(job)


def test_a_process_that_hangs_ends_all_by_a_time_out_and_each_leaves_its_stack(world):
    job = world.pretraining("hangs")
    job.run = job.run.model_copy(update={"hang_minutes": 0.1})
    codes, said = world.together(job, 2, rank=1, step=2, act="sleep")
    assert codes == [2, 2], said
    stacks = [(job.state / "stacks" / f"rank_{rank}.txt").read_text() for rank in (0, 1)]
    assert "in act\n" in stacks[1] and "in act\n" not in stacks[0] and "in sum\n" in stacks[0]
    assert "process 0 of 2 stands at" in said and "process 1 of 2 stands at" in said
    told = read_status(job.state)
    assert told["state"] == "failed" and "one of the 2 processes hangs" in told["error"]
    assert "ended without a word" not in said


def test_where_memory_runs_out_in_one_process_all_halve_the_micro_batch(world, undisturbed):
    job = world.pretraining("memory")
    codes, said = world.together(job, 2, rank=1, act="memory")
    assert codes == [0, 0], said
    notes = record(job.out)
    assert notes["micro_batch"] == 1 and notes["micro_batch_halved"] == [{"step": 1, "from": 2, "to": 1}]
    same(job.out, undisturbed)


@pytest.mark.parametrize(
    ("act", "sentence"),
    [
        ("fail", "this one process has failed"),
        ("poison", "training stopped: step 3 is not finite: its loss is "),
        ("kill", "another of the 2 processes ended without a word"),
        ("drift", f"after step {STEPS} the 2 processes hold different parameters"),
    ],
)
def test_where_one_process_fails_all_end_and_one_says_why(world, act, sentence):
    job = world.pretraining(act)
    codes, said = world.together(job, 2, rank=1, step=STEPS if act == "drift" else 2, act=act)
    assert all(codes) and said.count("said: ") == 1 and f"said: {sentence}" in said, said
    assert act != "poison" or "tensor that is not finite is the gradient of transformer.h.1.mlp.c_fc.weight" in said
    assert "Traceback" not in said and not States(job.state, print).all()
    assert act != "kill" or "ended without a word" in read_status(job.state)["error"]
    left_nothing(job)


def test_where_the_first_process_is_killed_another_says_so_without_a_traceback(world):
    """The first holds the board on which they say who failed."""
    job = world.pretraining("first killed")
    codes, said = world.together(job, 2, rank=0, step=2, act="kill")
    assert codes == [-9, 1], said
    assert said.count("said: ") == 1 and "said: another of the 2 processes ended without a word" in said, said
    assert "Traceback" not in said


def test_bits_per_byte_are_the_same_number_in_two_processes(world, undisturbed):
    inputs = {"checkpoint": undisturbed, **{name: world.inputs[name] for name in ("validation", "tokenizer")}}
    jobs = [world.job("bpb", name, BpbStage(rows=7, dtype="float32"), **inputs) for name in ("bpb1", "bpb2")]
    for job in jobs:
        job.progress = Progress()
    world.alone(jobs[0])
    codes, said = world.together(jobs[1], 2)
    assert codes == [0, 0], said
    one, two = (json.loads((job.out / "bpb.json").read_text()) for job in jobs)
    assert two == {**one, "bpb": pytest.approx(one["bpb"], abs=1e-6), "nats": pytest.approx(one["nats"], rel=1e-6)}
    assert record(jobs[1].out)["processes"] == 2


def test_a_stage_of_one_process_refuses_several_in_one_sentence():
    codes, said = finished(spawn_ranks(["-m", "xsa", "core", "demo", "any"], 2))
    assert codes == [2, 2]
    assert said.splitlines() == [
        "xsa core: core is made by one process, and several were started; call it without torchrun"
    ]


def test_a_batch_that_the_processes_do_not_divide_is_refused_before_training(world, monkeypatch):
    @contextmanager
    def three(device):
        yield Ranks(rank=0, world=3)

    monkeypatch.setattr("xsa.train.pretrain.ranks", three)
    job = world.pretraining("three")
    with pytest.raises(UserError, match="a batch of 4 rows cannot be split over 3 processes"):
        world.alone(job)
    left_nothing(job)
