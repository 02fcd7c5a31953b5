import json

import pytest

from xsa.data.icl import Task, read_tasks
from xsa.evaluate.core import make_prompts
from xsa.evaluate.core_prompts import common_prefix, render, to_prompt

MC = Task("mc", "multiple_choice", "x", 0, " ")
SCHEMA = Task("schema", "schema", "x", 0, " ")
LM = Task("lm", "language_modeling", "x", 0, " ")
LABELS = [f"{kind}_{shots}shot" for kind in ("mc", "schema", "lm") for shots in (0, 3, 10)]


@pytest.mark.parametrize("label", LABELS)
def test_prompts_ids_and_spans_are_the_reference_ones(reference, core_tokenizer, core_config, label):
    folder = reference("core")
    stored = json.loads((folder / f"{label}.json").read_text())
    task = next(task for task in read_tasks(folder / "bundle" / "core.yaml") if task.label == label)
    items = stored["data_shuffled"]
    wanted = stored["examples"]
    prompts = make_prompts(core_tokenizer, task, items, range(len(wanted)), core_config().sequence_len)
    for prompt, one in zip(prompts, wanted, strict=True):
        examples = [items[other] for other in one["fewshot_indices"]]
        assert render(task, items[prompt.index], examples) == one["prompts"]
        assert [list(option) for option in prompt.options] == one["tokens"]
        assert list(prompt.starts) == one["start"]
        assert list(prompt.ends) == one["end"]
        assert not prompt.cropped and not prompt.widened


def test_contexts_of_language_modelling_are_stripped_and_nothing_else_is():
    example, item = {"context": " a \n", "continuation": "b "}, {"context": "\tc ", "continuation": "d"}
    assert render(LM, item, [example]) == ["a b \n\nc", "a b \n\nc d"]
    example = {"query": " q ", "choices": ["x ", "y"], "gold": 0}
    assert render(MC, example, [example]) == [" q  x \n\n q  x ", " q  x \n\n q  y"]


def test_braces_in_an_item_are_text():
    item = {"query": "{{ 1 }} {% if %} {x}", "choices": ["{0}", "%s"], "gold": 0}
    assert render(MC, item, []) == ["{{ 1 }} {% if %} {x} {0}", "{{ 1 }} {% if %} {x} %s"]


def test_a_choice_that_is_the_beginning_of_another_is_scored_from_a_token_earlier():
    prompt = to_prompt(MC, 0, {"gold": 1}, [[9, 1, 2, 3], [9, 1, 2, 3, 4, 5]], 100)
    assert (prompt.starts, prompt.ends, prompt.widened) == ((3, 3), (4, 6), True)


def test_an_empty_choice_is_scored_on_the_context_s_last_token():
    prompt = to_prompt(MC, 0, {"gold": 0}, [[9, 1], [9, 1, 4]], 100)
    assert (prompt.starts, prompt.ends, prompt.widened) == ((1, 1), (2, 3), True)


def test_equal_choices_have_a_span():
    prompt = to_prompt(MC, 0, {"gold": 0}, [[9, 1, 2], [9, 1, 2]], 100)
    assert (prompt.starts, prompt.ends) == ((2, 2), (3, 3))


def test_a_schema_without_a_common_last_token_is_scored_on_one_token():
    prompt = to_prompt(SCHEMA, 0, {"gold": 0}, [[9, 1, 2], [9, 1, 3, 4]], 100)
    assert (prompt.starts, prompt.ends, prompt.widened) == ((2, 3), (3, 4), True)


def test_a_token_across_the_boundary_belongs_to_the_continuation():
    prompt = to_prompt(LM, 0, {}, [[9, 1, 2], [9, 1, 7, 3]], 100)
    assert (prompt.starts, prompt.ends, prompt.gold) == ((2,), (4,), None)


def test_an_option_too_long_loses_its_left_and_its_span_moves_along():
    prompt = to_prompt(MC, 0, {"gold": 0}, [[9, 1, 2, 3, 4], [9, 1, 2, 3, 5, 6, 7]], 5)
    assert prompt.options == ((9, 1, 2, 3, 4), (2, 3, 5, 6, 7))
    assert (prompt.starts, prompt.ends, prompt.cropped) == ((4, 2), (5, 5), True)


def test_a_prompt_of_exactly_the_context_s_length_is_whole():
    prompt = to_prompt(LM, 0, {}, [[9, 1, 2], [9, 1, 2, 3]], 4)
    assert prompt.options == ((9, 1, 2, 3),) and not prompt.cropped


def test_a_continuation_longer_than_the_context_is_scored_at_its_end():
    prompt = to_prompt(MC, 0, {"gold": 0}, [[9, 1, 2], [9, 1, 3, 4, 5, 6, 7, 8]], 4)
    assert prompt.options == ((9, 1, 2), (5, 6, 7, 8))
    assert (prompt.starts, prompt.ends, prompt.cropped) == ((2, 1), (3, 4), True)


def test_the_common_prefix_is_what_all_share():
    assert common_prefix([[1, 2, 3], [1, 2, 4], [1, 2]]) == 2
    assert common_prefix([[1, 2, 3], [1, 5, 3], [1, 2, 3]]) == 1
    assert common_prefix([[1], [2]]) == 0
    assert common_prefix([[1, 2]]) == 2
