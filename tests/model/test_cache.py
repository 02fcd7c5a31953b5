"""Reading with a cache is reading without one: any chunks, rows of any length, windows and grouped heads."""

from __future__ import annotations

import random

import pytest
import torch

from tests.model.conftest import lively, small_config
from xsa.model.cache import KVCache

CONFIGS = {
    "standard": {"alpha": 0.0, "n_kv_head": 4},
    "exclusive": {},
    "plain value": {"xsa_value": "plain", "xsa_layers": (0, 2)},
    "one shared head, all short but the last": {"n_kv_head": 1, "window_pattern": "S", "n_layer": 4, "alpha": 0.5},
}
TOLERANCE = 1e-4


@pytest.fixture(autouse=True)
def no_gradients():
    with torch.no_grad():
        yield


def build(**changes):
    model = lively(small_config(**changes))
    tokens = torch.randint(0, model.config.vocab_size, (3, 300), generator=torch.Generator().manual_seed(1))
    return model, tokens, model(tokens)


def new_cache(model, batch=3, max_len=300, dtype=torch.float32):
    return KVCache(model.config, batch, max_len, "cpu", dtype)


def feed(model, cache, tokens, counts, width=None):
    """Give row b its next counts[b] tokens, padded on the right with a wrong token; logits of the real ones, row by row."""
    width = width or max(counts)
    chunk = torch.full((cache.batch, width), 5)
    starts = list(cache.lengths)
    for row, count in enumerate(counts):
        chunk[row, :count] = tokens[row, starts[row] : starts[row] + count]
    logits = model.logits(model.hidden(chunk, cache=cache, lengths=counts))
    return [(row, starts[row], logits[row, :count]) for row, count in enumerate(counts) if count]


def assert_as_in_full(pieces, full):
    for row, start, logits in pieces:
        assert (logits - full[row, start : start + len(logits)]).abs().max() <= TOLERANCE, (row, start)


@pytest.mark.parametrize("changes", CONFIGS.values(), ids=CONFIGS.keys())
@pytest.mark.parametrize("seed", range(4))
def test_any_chunking_of_ragged_rows_gives_the_full_forwards_logits(changes, seed):
    model, tokens, full = build(**changes)
    draw = random.Random(seed)
    totals = [draw.randint(1, 300) for _ in range(3)]
    cache = new_cache(model)
    while cache.lengths != totals:
        width = draw.choice([1, 1, 2, 7, 64, 150])
        counts = [min(draw.randint(0, width), total - n) for total, n in zip(totals, cache.lengths, strict=True)]
        assert_as_in_full(feed(model, cache, tokens, counts, width), full)


@pytest.mark.parametrize("changes", CONFIGS.values(), ids=CONFIGS.keys())
def test_a_ragged_prefill_and_then_one_token_at_a_time(changes):
    model, tokens, full = build(**changes)
    cache = new_cache(model)
    assert_as_in_full(feed(model, cache, tokens, [200, 131, 1]), full)
    for _ in range(12):
        step = torch.stack([tokens[row, n] for row, n in enumerate(cache.lengths)])[:, None]
        logits = model(step, cache=cache)
        for row, n in enumerate(cache.lengths):
            assert (logits[row, 0] - full[row, n - 1]).abs().max() <= TOLERANCE
    assert cache.lengths_B.tolist() == [212, 143, 13]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_with_a_cache_alpha_zero_is_bitwise_the_baseline_too(dtype):
    logits = []
    for layers in ((), (0, 1, 2)):
        model = lively(small_config(alpha=0.0, xsa_layers=layers), dtype=dtype)
        tokens = torch.randint(0, 97, (3, 300), generator=torch.Generator().manual_seed(1))
        cache = new_cache(model, dtype=dtype)
        pieces = feed(model, cache, tokens, [200, 131, 1]) + feed(model, cache, tokens, [1, 7, 40])
        logits.append([logits for _, _, logits in pieces])
    assert all(torch.equal(a, b) for a, b in zip(*logits, strict=True))


def test_with_a_cache_too_the_output_is_orthogonal_to_the_own_value():
    model, tokens, _ = build()
    cache, cosines = new_cache(model), []

    def observe(layer, q, k, v, y, z):
        own = v.repeat_interleave(z.size(2) // v.size(2), dim=2)
        cosines.append((z * own).sum(-1).abs() / (y.norm(dim=-1) * own.norm(dim=-1)))

    model.hidden(tokens[:, :150], cache=cache)
    model.hidden(tokens[:, 150:151], cache=cache, observe=observe)
    assert len(cosines) == 3 and max(cosine.max() for cosine in cosines) <= 1e-6


def test_decoding_leaves_out_what_is_past_the_window():
    model, tokens, _ = build(n_layer=1, sequence_len=128, window_pattern="L")
    cache = new_cache(model, 1)
    feed(model, cache, tokens[:1], [200])
    other = new_cache(model, 1)
    changed = tokens[:1].clone()
    changed[:, :60] = (changed[:, :60] + 1) % model.config.vocab_size
    feed(model, other, changed, [200])
    step = tokens[:1, 200:201]
    assert torch.equal(model(step, cache=cache), model(step, cache=other)), "position 200 sees 72 and later"


def test_the_smear_reaches_over_the_start_of_a_chunk():
    model, tokens, full = build()
    cache = new_cache(model)
    feed(model, cache, tokens, [10, 10, 10])
    first_of_chunk = feed(model, cache, tokens, [5, 5, 5])
    assert_as_in_full(first_of_chunk, full)
    model.smear_lambda.fill_(0.0)
    assert (model(tokens)[:, 10] - full[:, 10]).abs().max() > 0.01, "the smear matters here"


def test_a_context_read_once_continues_in_many_ways():
    model, tokens, _ = build()
    context, endings = tokens[:1, :150], tokens[:, 150:160]
    cache = new_cache(model, 1)
    model.hidden(context, cache=cache)
    branches = cache.expand(3)
    logits = model(endings, cache=branches)
    full = model(torch.cat((context.expand(3, -1), endings), dim=1))
    assert (logits - full[:, 150:]).abs().max() <= TOLERANCE
    assert cache.lengths == [150] and branches.lengths == [160] * 3


def test_expand_repeats_each_row_in_succession():
    model, tokens, _ = build()
    cache = new_cache(model)
    feed(model, cache, tokens, [3, 2, 1])
    assert cache.expand(2).lengths == [3, 3, 2, 2, 1, 1]


def test_selected_rows_go_on_where_they_were():
    model, tokens, full = build()
    cache = new_cache(model)
    feed(model, cache, tokens, [200, 50, 7])
    chosen = cache.select([2, 0, 2])
    pieces = feed(model, chosen, tokens[[2, 0, 2]], [4, 1, 3])
    assert_as_in_full(pieces, full[[2, 0, 2]])
    assert_as_in_full(feed(model, cache, tokens, [1, 1, 1]), full)


def test_after_truncation_rows_go_on_as_if_they_had_never_read_further():
    model, tokens, full = build()
    cache = new_cache(model)
    feed(model, cache, tokens.flip(1), [250, 3, 10])
    cache.truncate([0, 0, 0])
    assert_as_in_full(feed(model, cache, tokens, [250, 180, 90]), full)
    cache.truncate(torch.tensor([200, 180, 1]))
    assert_as_in_full(feed(model, cache, tokens, [9, 9, 9]), full)


def test_empty_rows_wait_for_their_turn():
    model, tokens, full = build()
    cache = new_cache(model)
    feed(model, cache, tokens, [5, 0, 0])
    assert_as_in_full(feed(model, cache, tokens, [0, 6, 0], width=8), full)
    assert_as_in_full(feed(model, cache, tokens, [2, 2, 2]), full)


def test_in_bfloat16_the_cached_logits_follow_the_full_ones():
    model = lively(small_config(), dtype=torch.bfloat16)
    tokens = torch.randint(0, 97, (3, 300), generator=torch.Generator().manual_seed(1))
    full, cache = model(tokens), new_cache(model, dtype=torch.bfloat16)
    pieces = feed(model, cache, tokens, [140, 20, 3]) + feed(model, cache, tokens, [5, 1, 4])
    for row, start, logits in pieces:
        difference = logits - full[row, start : start + len(logits)]
        assert difference.abs().mean() < 0.05 * full.abs().mean()


def test_padding_may_stick_out_past_the_longest_row_allowed():
    model, tokens, full = build()
    cache = new_cache(model, max_len=20)
    feed(model, cache, tokens, [18, 2, 2])
    assert_as_in_full(feed(model, cache, tokens, [2, 10, 1]), full)


def test_a_row_longer_than_the_cache_is_refused():
    model, tokens, _ = build()
    cache = new_cache(model, max_len=20)
    feed(model, cache, tokens, [18, 2, 2])
    with pytest.raises(ValueError, match=r"21 tokens.*max_len = 20"):
        feed(model, cache, tokens, [3, 1, 1])
    assert cache.lengths == [18, 2, 2]


@pytest.mark.parametrize(
    ("tokens", "lengths", "message"),
    [
        (torch.zeros(2, 4, dtype=torch.long), None, "2 rows of tokens for a cache of 3"),
        (torch.zeros(3, 4, dtype=torch.long), [1, 2], "do not fit"),
        (torch.zeros(3, 4, dtype=torch.long), [1, 2, 5], "do not fit"),
    ],
)
def test_tokens_and_lengths_that_do_not_fit_are_refused(tokens, lengths, message):
    model, _, _ = build()
    with pytest.raises(ValueError, match=message):
        model.hidden(tokens, cache=new_cache(model), lengths=lengths)


def test_lengths_without_a_cache_are_refused():
    model, tokens, _ = build()
    with pytest.raises(ValueError, match="without one"):
        model.hidden(tokens, lengths=[1, 2, 3])


def test_a_row_cannot_be_cut_to_more_than_it_holds():
    model, tokens, _ = build()
    cache = new_cache(model)
    feed(model, cache, tokens, [3, 2, 1])
    with pytest.raises(ValueError, match="cannot cut"):
        cache.truncate([3, 3, 1])
