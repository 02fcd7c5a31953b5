"""Packed trees give what each of their paths gives when it is read whole and alone."""

from __future__ import annotations

import random
from itertools import accumulate

import pytest
import torch

from tests.model.conftest import lively, small_config
from xsa.model import packed as module
from xsa.model.attention import attend, window_mask
from xsa.model.packed import Packed, Tree, attend_stems

CONFIGS = {
    "standard": {"alpha": 0.0, "n_kv_head": 4},
    "exclusive": {},
    "plain value": {"xsa_value": "plain", "xsa_layers": (0, 2)},
    "one shared head, all short but the last": {"n_kv_head": 1, "window_pattern": "S", "n_layer": 4, "alpha": 0.5},
    "one layer": {"n_layer": 1},
    "two layers, the middle one last": {"n_layer": 2},
}


@pytest.fixture(autouse=True)
def no_gradients():
    with torch.no_grad():
        yield


def drawn(seed: int, *lengths: int) -> list[tuple[int, ...]]:
    draw = random.Random(seed)
    return [tuple(draw.randrange(97) for _ in range(length)) for length in lengths]


def tree(seed: int, stem: int, *branches: int, asked: list[int] | None = None) -> Tree:
    """A tree of random tokens of these lengths; of a tree that names none, every output is asked for."""
    stem_ids, *branch_ids = drawn(seed, stem, *branches)
    return Tree(stem_ids, branch_ids, list(range(stem + sum(branches))) if asked is None else asked)


def expected(model, one: Tree) -> torch.Tensor:
    """The tree's outputs, from each path read whole, (A, D)."""
    paths = [one.stem, *((*one.stem, *branch) for branch in one.branches)]
    hidden = [model.hidden(torch.tensor([path]))[0] if path else None for path in paths]
    begins = [*accumulate([len(one.stem), *map(len, one.branches)])]
    rows = [] if hidden[0] is None else [hidden[0]]
    rows += [h[len(one.stem) :] for h in hidden[1:] if h is not None]
    assert begins[-1] == sum(map(len, rows))
    return torch.cat(rows)[torch.tensor(one.asked)]


def assert_as_alone(model, trees: list[Tree]) -> None:
    packed = Packed(trees)
    got_AD = model.hidden(packed.tokens_1N, packed=packed)[0]
    want_AD = torch.cat([expected(model, one) for one in trees])
    assert (got_AD - want_AD).abs().max() <= 1e-4


@pytest.mark.parametrize("changes", CONFIGS.values(), ids=CONFIGS.keys())
def test_every_output_of_trees_of_any_shape_is_that_of_its_path_alone(changes):
    trees = [
        tree(1, 40, 5, 9),
        tree(2, 290, 30, 1, 20),  # longer than a short window, which is 128
        tree(3, 7),
        tree(4, 3, 0, 4),
        tree(5, 0, 6, 200),
        tree(6, 1, 150, 2),
    ]
    assert_as_alone(lively(small_config(**changes)), trees)


@pytest.mark.parametrize("changes", CONFIGS.values(), ids=CONFIGS.keys())
def test_outputs_come_in_the_order_in_which_they_are_asked_for(changes):
    trees = [tree(1, 200, 8, 8, asked=[215, 199, 200, 3]), tree(2, 5, asked=[4]), tree(3, 9, 2, asked=[10, 0])]
    assert_as_alone(lively(small_config(**changes)), trees)


def test_branches_do_not_see_one_another():
    model = lively(small_config())
    one, other = tree(1, 20, 6, 6), tree(1, 20, 6, 6)
    changed = Tree(one.stem, [one.branches[0], drawn(9, 6)[0]], one.asked)
    first, second = (Packed([each]) for each in (other, changed))
    before = model.hidden(first.tokens_1N, packed=first)[0, :26]
    assert torch.equal(before, model.hidden(second.tokens_1N, packed=second)[0, :26])


def test_positions_beyond_the_trained_context_are_read_as_in_a_whole_row():
    model = lively(small_config(sequence_len=30))
    assert_as_alone(model, [tree(1, 280, 10, 9), tree(2, 100)])


def test_trees_pack_in_bfloat16():
    model = lively(small_config(), dtype=torch.bfloat16)
    trees = [tree(1, 150, 8, 3), tree(2, 30)]
    packed = Packed(trees)
    got_AD = model.hidden(packed.tokens_1N, packed=packed)[0].float()
    want_AD = torch.cat([expected(model, one) for one in trees]).float()
    assert (got_AD - want_AD).abs().mean() < 0.05 * want_AD.abs().mean()


@pytest.mark.parametrize("window", [1, 5, 30, 59, 100])
def test_a_window_seen_block_by_block_is_the_window_under_a_mask(monkeypatch, window):
    monkeypatch.setattr(module, "BLOCK", 8)
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(2, 60, heads, 8, generator=generator) for heads in (4, 2, 2))
    at = torch.arange(60)
    torch.testing.assert_close(attend_stems(q, k, v, window), attend(q, k, v, window_mask(at, at, window)))
