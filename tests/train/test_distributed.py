"""Two processes that train together are one: the same stream, the same losses, one result."""

from __future__ import annotations

import os
import pickle
import socket
import subprocess
import sys

import pyarrow.parquet as pq
import pytest

# What each process runs: the stage itself, then a disagreement made on purpose.
PROCESS = """
import json, pickle, sys
import torch
from xsa.store.errors import UserError
from xsa.train.loop import Run
from xsa.train.pretrain import pretrain

said = {}
finish = Run.finish

def finish_and_disagree(run, config):
    finish(run, config)
    run.ranks.check_agreement(run.trainer.model, 1)
    with torch.no_grad():
        run.trainer.model.x0_lambdas[0] += run.ranks.rank
    try:
        run.ranks.check_agreement(run.trainer.model, 2)
    except UserError as error:
        said["disagreement"] = str(error)

Run.finish = finish_and_disagree
print(json.dumps(pretrain(pickle.load(open(sys.argv[1], "rb"))) | said))
"""


def together(tmp_path, job, world: int) -> dict:
    """Run the job's stage in `world` processes and return the first one's notes."""
    import json

    job.out.mkdir(parents=True)
    (tmp_path / "job.pickle").write_bytes(pickle.dumps(job))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    common = {"WORLD_SIZE": str(world), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROCESS, str(tmp_path / "job.pickle")],
            env=os.environ | common | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(world)
    ]
    finished = [process.communicate(timeout=120) for process in processes]
    assert all(process.returncode == 0 for process in processes), finished
    return json.loads(finished[0][0].splitlines()[-1])


def test_two_processes_train_as_one(pretraining, run, notes, tmp_path):
    alone = run(pretraining("alone"))
    job = pretraining("together")
    job.progress = type(job).__dataclass_fields__["progress"].default_factory()
    found = together(tmp_path, job, 2)
    assert found["processes"] == 2 and found["micro_batch"] == 2
    assert found["data_stream_sha256"] == notes(alone)["data_stream_sha256"]
    one, two = (pq.read_table(folder / "log.parquet").to_pydict() for folder in (alone, job.out))
    assert two["tokens"] == one["tokens"]
    # Later steps from nanochat's first weights amplify the order of summation.
    assert two["loss"][:3] == pytest.approx(one["loss"][:3], abs=1e-5)
    assert two["grad_norm"][:3] == pytest.approx(one["grad_norm"][:3], rel=1e-4)
    assert two["loss"] == pytest.approx(one["loss"], abs=1e-3)
    bpb = [pq.read_table(folder / "validation.parquet")["bpb"].to_pylist() for folder in (alone, job.out)]
    assert bpb[1] == pytest.approx(bpb[0], abs=1e-3)
    assert "after step 2 the 2 processes hold different parameters" in found["disagreement"]
