"""A study that is hit by every kind of kill ends as one that was left alone: a small run of `benchmarks/chaos.py`."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.workflow.conftest import ROOT

pytestmark = pytest.mark.workflow


def test_twenty_kills_of_all_kinds_change_no_result():
    command = [sys.executable, str(ROOT / "benchmarks/chaos.py"), "--kills", "20", "--seed", "1", "--steps", "160"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=1500)
    said = run.stdout + run.stderr
    assert run.returncode == 0 and re.search(r"^20 kills, \d rounds?, all hashes equal$", said, re.MULTILINE), said
    unused = re.findall(r"^(\S.*?) +0   -$", said, re.MULTILINE)
    assert unused == ([] if "disks are filled here" in said else ["disk full"]), said
