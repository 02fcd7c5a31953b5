"""What a study file may say, and how it is told what is wrong."""

from __future__ import annotations

import copy

import pytest

from tests.study.conftest import RECIPE, STUDY
from xsa.store.errors import UserError


def changed(**changes):
    return {**copy.deepcopy(STUDY), **changes}


def refusal(project, study) -> str:
    project.study(study)
    with pytest.raises(UserError) as error:
        project.plan()
    return str(error.value)


def test_every_combination_of_factors_is_a_cell(project):
    cells = project.plan().cells
    assert [cell.label for cell in cells] == [f"d2w32h2-muon-a{a}-s{s}" for a in (0, 1) for s in (0, 1)]


def test_an_unknown_key_of_the_study_names_line_and_nearest_known_one(project):
    message = refusal(project, changed(shape={}))
    assert "tiny.yaml:" in message and "'shape'" in message and "did you mean 'shapes'?" in message


def test_an_unknown_setting_names_file_line_and_nearest_known_one(project):
    message = refusal(project, changed(settings={"horizon": {"ratoi": 8}}))
    assert "tiny.yaml:" in message and "'horizon.ratoi'" in message and "did you mean 'ratio'?" in message


def test_an_unknown_setting_of_the_recipe_names_the_recipe_file(project):
    recipe = copy.deepcopy(RECIPE)
    recipe["settings"]["optim"] = {"matrx_lr": 0.1}
    project.recipe(recipe)
    with pytest.raises(UserError, match=r"base\.yaml:\d+: unknown key 'optim.matrx_lr'; did you mean 'matrix_lr'"):
        project.plan()


def test_an_unknown_factor_names_the_nearest_setting(project):
    message = refusal(project, changed(factors={"xsa.alhpa": [0, 1]}))
    assert "'xsa.alhpa'" in message and "did you mean 'xsa.alpha'?" in message


def test_alpha_outside_zero_to_one_is_refused_with_its_place_and_range(project):
    message = refusal(project, changed(factors={"xsa.alpha": [0, 1.5], "seed": [0]}))
    assert "tiny.yaml:" in message and "xsa.alpha is 1.5" in message and "less than or equal to 1" in message


def test_a_wrong_type_names_key_value_and_what_is_allowed(project):
    message = refusal(project, changed(settings={"schedule": {"warmup_steps": "many"}}))
    assert "schedule.warmup_steps is 'many'" in message and "integer" in message


def test_a_head_count_that_does_not_divide_the_width_is_refused(project):
    message = refusal(project, changed(shapes={"d2": {"model": {"n_layer": 2, "n_embd": 32, "n_head": 3}}}))
    assert "tiny.yaml" in message and "n_head = 3 does not divide n_embd = 32" in message


def test_a_factor_value_given_twice_collides(project):
    message = refusal(project, changed(factors={"xsa.alpha": [0, 1, 1.0], "seed": [0]}))
    assert "two cells are the same" in message and "xsa.alpha = 1.0" in message


def test_two_shapes_that_are_one_collide(project):
    shape = {"model": {"n_layer": 2, "n_embd": 32, "n_head": 2}}
    assert "two cells are the same" in refusal(project, changed(shapes={"a": shape, "b": shape}))


def test_layer_sets_at_alpha_zero_are_one_cell(project):
    project.study(changed(factors={"xsa.alpha": [0, 1], "xsa.layers": ["all", "last:1"], "seed": [0]}))
    labels = [cell.label for cell in project.plan().cells]
    assert labels == ["d2w32h2-muon-a0-s0", "d2w32h2-muon-a1-s0", "d2w32h2-muon-a1-last1-s0"]


def test_a_baseline_that_is_no_factor_value_is_refused(project):
    assert "baseline has xsa.alpha = 0.5" in refusal(project, changed(baseline={"xsa.alpha": 0.5}))
    assert "no factor of this study" in refusal(project, changed(baseline={"optim.matrix": "muon"}))


def test_a_name_that_is_not_the_files_is_refused(project):
    project.study(changed(), text="name: other\n")
    with pytest.raises(UserError):
        project.plan()
    path = project.root / "config/studies/tiny.yaml"
    import yaml

    path.write_text(yaml.safe_dump(changed(name="other")))
    with pytest.raises(UserError, match=r"name is .other., but the file is called tiny\.yaml"):
        project.plan()


def test_a_key_given_twice_is_refused(project):
    project.study(STUDY, text="name: tiny\nname: tiny\n")
    with pytest.raises(UserError, match=r"tiny\.yaml:2: the key 'name' is there twice"):
        project.plan()


def test_text_that_is_no_yaml_is_refused(project):
    project.study(STUDY, text="name: [tiny\n")
    with pytest.raises(
        UserError, match=r"tiny\.yaml:2: not valid YAML while parsing a flow sequence that begins in line 1"
    ):
        project.plan()


def test_an_unknown_study_names_the_nearest_known_one(project):
    with pytest.raises(UserError, match="did you mean 'tiny'"):
        project.plan("tinny")


def test_an_unknown_recipe_names_the_nearest_known_one(project):
    assert "did you mean 'base'?" in refusal(project, changed(recipe="bas"))


def test_a_horizon_longer_than_the_data_says_how_many_shards_would_do(project):
    message = refusal(project, changed(settings={"horizon": {"steps": 1000}}))
    assert "needs 26 training shards" in message and "the data has 2" in message


def test_a_batch_that_is_no_whole_number_of_rows_is_refused(project):
    message = refusal(project, changed(settings={"horizon": {"batch_tokens": 100}}))
    assert "no whole number of rows of 64 tokens" in message


def test_more_tokenizer_shards_than_training_shards_are_refused(project):
    assert "lower tokenizer.shards" in refusal(project, changed(settings={"tokenizer": {"shards": 3}}))


@pytest.mark.parametrize(
    ("count", "words"), [(None, "there is no folder"), (0, "holds no .parquet file"), (1, "at least two are needed")]
)
def test_a_local_folder_without_two_shards_is_refused(project, count, words):
    if count is not None:
        (project.root / "corpus").mkdir()
        for index in range(count):
            (project.root / "corpus" / f"shard_{index}.parquet").write_bytes(b"PAR1")
    data = {"kind": "local", "path": "corpus", "tokens_per_shard": 10_000}
    assert words in refusal(project, changed(settings={"data": data}))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"xsa": {"layers": 3}}, "xsa.layers is 3; input should be 'all', 'value_embeds' or 'no_value_embeds', or "),
        ({"xsa": {"layers": []}}, "for no layer at all set xsa.alpha to 0"),
        ({"precision": {"compile": "maybe"}}, "precision.compile is 'maybe'; input should be 'auto', or "),
        ({"data": {"kind": "loc"}}, "data.kind is 'loc'; kinds are builtin, local, hub"),
        ({"data": {"kind": "local", "shards": 3}}, "unknown key 'data.shards'; known are kind, path, tokens_per_shard"),
        ({"data": {"kind": "hub", "file_pattern": "x.parquet"}}, "names no shard by its number"),
        ({"schedule": {"warmup_steps": True}}, "warmup_steps is true; give a number"),
        ({"finetune": {"mixture": [{"set": "smoltalk", "repet": 1}]}}, "did you mean 'repeat'?"),
    ],
)
def test_what_does_not_fit_a_choice_is_told_in_one_sentence(project, settings, words):
    message = refusal(project, changed(settings=settings))
    assert words in message and "tiny.yaml:" in message


def test_a_mapping_as_a_factors_value_is_refused(project):
    assert "vary single settings by their paths" in refusal(
        project, changed(factors={"horizon": [{"steps": 3}]}, baseline={})
    )


def test_a_study_cannot_take_a_stages_folder(project):
    project.study(changed(name="pretrain"))
    with pytest.raises(UserError, match="is a stage"):
        project.plan("pretrain")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name: !foo 1\n", "1: '1' cannot be read as"),
        ("a: &x {b: 1}\nc:\n  <<: *x\n", "3: merge keys"),
        ("title: 2026-99-99\n", "1: '2026-99-99' cannot be read as timestamp"),
        ("? [a, b]\n: 1\n", "a key must be a single word"),
        ("a: &x [*x]\n", "an alias"),
    ],
)
def test_yaml_that_is_not_read_is_refused_with_its_line(project, text, words):
    project.study(STUDY, text=text)
    with pytest.raises(UserError) as error:
        project.plan()
    assert words in str(error.value) and "tiny.yaml:" in str(error.value)


def test_an_empty_group_of_settings_does_not_swallow_the_recipes(project):
    message = refusal(project, changed(settings={"model": None}))
    assert "model is None, but is a group of settings (sequence_len)" in message and "tiny.yaml:" in message


def test_a_baseline_is_asked_for_where_there_is_something_to_compare(project):
    assert "baseline is empty, so nothing would be compared" in refusal(
        project, changed(baseline={}, factors={"xsa.alpha": [0, 1]})
    )


def test_the_same_file_for_training_and_validation_is_refused(project):
    (project.root / "corpus").mkdir()
    for index in range(2):
        (project.root / "corpus" / f"shard_{index}.parquet").write_bytes(b"PAR1")
    data = {"kind": "local", "path": "corpus", "tokens_per_shard": 10_000}
    message = refusal(project, changed(settings={"data": data}))
    assert "validation shard shard_1.parquet is the same file as the training shard shard_0.parquet" in message


def test_a_seed_that_no_generator_takes_is_refused(project):
    assert "seed is" in refusal(project, changed(factors={"xsa.alpha": [0, 1], "seed": [2**63]}))
