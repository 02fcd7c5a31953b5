"""Without a compiler a CPU trains eagerly and says so; a GPU refuses to be slow in silence."""

from __future__ import annotations

import pytest
import torch

from xsa.store.errors import UserError
from xsa.train.compiling import loss_sum


@pytest.fixture
def no_compiler(monkeypatch):
    def compile(function, **kwargs):
        def fail(*args):
            raise RuntimeError("No working C++ compiler found in (None, 'g++')\n\nSet TORCHDYNAMO_VERBOSE=1")

        return fail

    monkeypatch.setattr(torch, "compile", compile)


class Model:
    def __call__(self, tokens, targets, reduction):
        return (tokens, targets, reduction)


def test_a_cpu_without_a_compiler_falls_back_and_says_so(no_compiler):
    said = []
    function, how = loss_sum(Model(), True, torch.device("cpu"), said.append)
    assert function(1, 2) == (1, 2, "sum")
    assert how == {"compiled": False, "why": "No working C++ compiler found in (None, 'g++')"}
    assert "runs uncompiled" in said[0]


def test_a_gpu_without_a_compiler_stops_with_what_to_do(no_compiler, monkeypatch):
    monkeypatch.setattr("xsa.train.compiling.compiler_fault", lambda device: "no compiler")
    with pytest.raises(UserError, match=r"no compiler\. .*precision\.compile: false"):
        loss_sum(Model(), True, torch.device("cuda"), print)


def test_nothing_is_compiled_unless_asked_for(no_compiler):
    _, how = loss_sum(Model(), False, torch.device("cpu"), print)
    assert how["compiled"] is False


def test_a_compiled_run_is_noted(monkeypatch):
    monkeypatch.setattr(torch, "compile", lambda function, **kwargs: function)
    function, how = loss_sum(Model(), True, torch.device("cpu"), print)
    assert function(1, 2) == (1, 2, "sum") and how == {"compiled": True}
