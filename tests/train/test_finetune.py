"""Fine-tuning inherits the pretrained model whole, learns assistants' tokens only, and resumes like pretraining."""

from __future__ import annotations

import json
import os
import shutil
import signal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file

from xsa.data.tokenizer import Tokenizer
from xsa.evaluate.engine import Cached
from xsa.model.nanochat import NanoChat
from xsa.store.errors import UserError
from xsa.study.settings import MixtureItem
from xsa.study.stages import FinetuneStage
from xsa.train.checkpoint import load_model
from xsa.train.conversations import PackedBatches, pack_ahead
from xsa.train.finetune import rates, starting_optim


def conversation(question: str, answer: str) -> list[dict]:
    return [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]


def chatsets(results, conversations, test=None):
    """A result with a SmolTalk of these conversations."""

    def fill(folder):
        (folder / "smoltalk").mkdir()
        for split, rows in (("train", conversations), ("test", test)):
            if rows is not None:
                pq.write_table(pa.table({"messages": rows}), folder / "smoltalk" / f"{split}.parquet")

    return results.add("chatsets", fill)


# Pretraining here has batches of 128 tokens, for which its rates count as scaled down 64-fold.
LR_FRACTION = 0.8 / 64


def settings(**changes) -> FinetuneStage:
    values = {
        "seed": 0,
        "mixture": (MixtureItem(set="smoltalk"),),
        "steps": None,
        "batch_rows": 2,
        "lr_fraction": LR_FRACTION,
        "buffer_size": 4,
        "overlong": "truncate",
        "compile": False,
        "validation_every": 2,
    }
    return FinetuneStage(**{**values, **changes})


TALK = [conversation(f"q{n}?", "ab" * (n % 4 + 1)) for n in range(14)]
LONG = conversation("why?", "because " * 20)


@pytest.fixture
def finetuning(pretraining, results, run):
    """`finetuning(name, conversations=…, test=…, **settings)`: a job on a pretrained cell with alpha = 1."""
    base = run(pretraining("base"))

    def job(name: str, conversations=(*TALK, LONG), test=TALK[:5], save_minutes=60.0, **changes):
        given = {"checkpoint": base, "chatsets": chatsets(results, list(conversations), test and list(test))}
        tokenizer = pretraining.inputs["tokenizer"]
        return results.job("finetune", name, settings(**changes), save_minutes, tokenizer=tokenizer, **given)

    job.base = base
    return job


def test_alpha_survives_and_is_run(finetuning, run):
    folder = run(finetuning("a"))
    config = json.loads((folder / "config.json").read_text())
    assert config["model"]["alpha"] == 1.0 and config["stage"] == "finetune"
    model = load_model(folder, "cpu", "float32")
    assert model.config.alpha == 1.0
    standard = NanoChat(model.config.model_copy(update={"alpha": 0.0})).eval()
    standard.load_state_dict(model.state_dict())
    tokens = torch.arange(32)[None] + 97
    with torch.no_grad():
        assert (model(tokens) - standard(tokens)).abs().max() > 1e-3


def test_generation_from_a_fine_tuned_model_runs_its_alpha(finetuning, run):
    folder = run(finetuning("a"))
    model = load_model(folder, "cpu", "float32")
    standard = NanoChat(model.config.model_copy(update={"alpha": 0.0})).eval()
    standard.load_state_dict(model.state_dict())
    prompt = [*b"why? ", *b"because"]
    step = {}
    with torch.no_grad():
        for name, one in (("exclusive", model), ("standard", standard)):
            source = Cached(one, 1, 40)
            source.read([prompt[:-1]])
            source.put([0], [0])
            step[name] = source.go_on([prompt[-1]])[0]
        torch.testing.assert_close(step["exclusive"], model(torch.tensor([prompt]))[0, -1], rtol=0, atol=1e-5)
    assert (step["exclusive"] - step["standard"]).abs().max() > 1e-3


def test_the_first_loss_of_a_model_with_alpha_is_that_of_its_projection(finetuning, run, tmp_path):
    job = finetuning("a", steps=1)
    tokenizer = Tokenizer.load(job.input("tokenizer") / "tokenizer.json")
    pack_ahead(tmp_path / "packed", job.settings, job.input("chatsets"), tokenizer, 32, job.progress)
    batch = PackedBatches(tmp_path / "packed", 2, 32).read(0)
    (logged,) = pq.read_table(run(job) / "log.parquet")["loss"].to_pylist()
    exclusive = load_model(finetuning.base, "cpu", "float32")
    losses = {}
    for alpha in (1.0, 0.0):
        model = NanoChat(exclusive.config.model_copy(update={"alpha": alpha}))
        model.load_state_dict(exclusive.state_dict())
        with torch.no_grad():
            losses[alpha] = model(torch.from_numpy(batch.inputs_RT), torch.from_numpy(batch.targets_RT)).item()
    assert logged == pytest.approx(losses[1.0], abs=1e-6)
    assert abs(losses[0.0] - losses[1.0]) > 1e-4


def test_one_epoch_uses_every_conversation_and_counts_what_it_cut(finetuning, run, notes):
    folder = run(finetuning("a"))
    mixture = notes(folder)["mixture"]
    assert mixture["conversations"] == 15 and mixture["sizes"] == {"smoltalk": 15}
    assert (
        mixture["counts"]["placed"] >= 15 and mixture["counts"]["truncated"] >= 1 and mixture["counts"]["dropped"] == 0
    )
    log = pq.read_table(folder / "log.parquet")
    assert log.num_rows == notes(folder)["steps"] == json.loads((folder / "config.json").read_text())["step"]
    assert log["tokens"].to_pylist() == [step * 2 * 32 for step in log["step"].to_pylist()]
    dropped = notes(run(finetuning("dropped", overlong="drop")))["mixture"]["counts"]
    assert dropped["dropped"] >= 1 and dropped["truncated"] == 0


def test_held_out_conversations_are_watched_where_there_are_some(finetuning, run, notes):
    folder = run(finetuning("a"))
    steps = notes(folder)["steps"]
    validation = pq.read_table(folder / "validation.parquet")
    assert validation["step"].to_pylist() == sorted({*range(2, steps, 2), steps})
    assert all(0 < bpb < 20 for bpb in validation["bpb"].to_pylist())
    job = finetuning("unwatched", test=None, steps=1)
    unwatched = run(job)
    assert pq.read_table(unwatched / "validation.parquet").num_rows == 0
    assert notes(unwatched)["held_out"] is False and any("is not watched" in sentence for sentence in job.progress.said)


def test_only_the_assistants_tokens_are_learned(finetuning, tmp_path, tiny):
    job = finetuning("a", conversations=[conversation("ask", "yes")])
    tokenizer = Tokenizer.load(job.input("tokenizer") / "tokenizer.json")
    pack_ahead(tmp_path / "packed", settings(steps=1), job.input("chatsets"), tokenizer, 32, job.progress)
    batch = PackedBatches(tmp_path / "packed", 2, 32).read(0)
    learned = [tokenizer.decode(row[row >= 0].tolist()) for row in batch.targets_RT]
    assert set("".join(learned).split("<|assistant_end|>")) == {"yes", ""}
    inputs, targets = batch.inputs_RT[:, 1:], batch.targets_RT[:, :-1]
    assert np.array_equal(inputs[targets >= 0], targets[targets >= 0])


def test_rates_start_anew_and_moments_go_on_from_pretrainings(finetuning, run):
    folder = run(finetuning("a", steps=4))
    log = pq.read_table(folder / "log.parquet").to_pydict()
    assert log["lr_multiplier"] == pytest.approx([LR_FRACTION * share for share in (1, 1, 1, 0.5)])
    assert log["momentum"][0] == 0.85 and log["weight_decay"] == [0.0] * 4
    assert int(load_file(folder / "optimizer.safetensors")["step"]) == 6 + 4
    before, after = (json.loads((path / "config.json").read_text())["training"] for path in (finetuning.base, folder))
    assert after["optim"]["matrix_lr"] == pytest.approx(64 * before["optim"]["matrix_lr"], rel=1e-12)
    assert after["dtype"] == before["dtype"]


def test_dtype_model_and_optimizer_are_the_pretrained_cells(pretraining, results, run, tiny):
    optim = tiny.optim(matrix="adamw", matrix_lr=0.001)
    base = run(pretraining("coarse", dtype="bfloat16", optim=optim))
    given = {"checkpoint": base, "chatsets": chatsets(results, TALK), "tokenizer": pretraining.inputs["tokenizer"]}
    folder = run(results.job("finetune", "coarse", settings(steps=2), **given))
    stored = {name: tensor.dtype for name, tensor in load_file(folder / "model.safetensors").items()}
    assert stored == {name: tensor.dtype for name, tensor in load_file(base / "model.safetensors").items()}
    assert stored["transformer.wte.weight"] == torch.bfloat16 and stored["lm_head.weight"] == torch.float32
    before, after = (json.loads((path / "config.json").read_text()) for path in (base, folder))
    assert after["model"] == before["model"]
    assert (after["training"]["dtype"], after["training"]["optim"]["matrix"]) == ("bfloat16", "adamw")


def test_one_step_from_the_checkpoints_moments_is_the_one_written_out(finetuning, run):
    """The head after one step: AdamW by hand from the stored moments, at the recipe's rate, on the step's gradient."""
    job = finetuning("a", steps=1)
    folder = run(job)
    old, new = (load_file(path / "optimizer.safetensors") for path in (finetuning.base, folder))
    first, second = (f"{kind}.lm_head.weight" for kind in ("exp_avg", "exp_avg_sq"))
    gradient = (new[first].double() - 0.8 * old[first].double()) / 0.2
    assert gradient.norm() > 1e-3
    torch.testing.assert_close(
        new[second].double(), 0.96 * old[second].double() + 0.04 * gradient**2, rtol=1e-3, atol=1e-12
    )
    typed = json.loads((folder / "config.json").read_text())["training"]["optim"]["unembedding_lr"]
    lr = LR_FRACTION * typed * (768 / 32) ** 0.5
    move = new[first].double() / (1 - 0.8**7) / ((new[second].double() / (1 - 0.96**7)).sqrt() + 1e-10)
    before, after = (
        load_file(path / "model.safetensors")["lm_head.weight"].double() for path in (finetuning.base, folder)
    )
    torch.testing.assert_close(after, before * (1 - lr * 0.01) - lr * move, rtol=0, atol=1e-6)


@pytest.mark.parametrize("batch_rows", [128, 256, 512, 300])
def test_rates_are_the_recipes_whatever_pretrainings_batch_made_of_them(tiny, batch_rows):
    typed = {"matrix_lr": 0.02, "embedding_lr": 0.3, "unembedding_lr": 0.008, "scalar_lr": 0.5}
    scale = (batch_rows * 2048 / 2**19) ** 0.5
    training = tiny.pretrain(
        model=tiny.model(sequence_len=2048),
        batch_rows=batch_rows,
        optim=tiny.optim(**{name: rate * scale for name, rate in typed.items()}),
    )
    found = starting_optim(training)
    assert {name: getattr(found, name) for name in typed} == pytest.approx(typed, rel=1e-14)
    assert (found.matrix, found.version) == (training.optim.matrix, training.optim.version)


def test_schedule_follows_the_reference(reference):
    runs = json.loads((reference("schedule") / "sft.json").read_text())["runs"]
    ours = [
        run for run in runs if (run["warmup_ratio"], run["warmdown_ratio"], run["final_lr_frac"]) == (0.0, 0.5, 0.0)
    ]
    assert ours
    for stored in ours:
        schedule = rates(200, stored["init_lr_frac"])
        expected = {round(200 * at): lr for at, lr in zip(stored["progress"], stored["lr_multiplier"], strict=True)}
        for step in range(200):
            assert schedule(step).lr_multiplier == pytest.approx(stored["init_lr_frac"] * expected[step], abs=1e-12)


def test_a_mixture_with_nothing_to_learn_is_refused(finetuning, run):
    asked = [conversation("why " * 20, "never seen") for _ in range(3)]
    with pytest.raises(UserError, match=r"nothing to learn: .*truncated to 32 tokens"):
        run(finetuning("cut", conversations=asked))
    with pytest.raises(UserError, match=r"finetune\.overlong is `drop`"):
        run(finetuning("dropped", conversations=asked, overlong="drop"))


def test_a_stopped_run_ends_like_an_undisturbed_one_and_packs_once(finetuning, run, monkeypatch):
    undisturbed = run(finetuning("undisturbed"))
    job = finetuning("stopped")
    job.progress.at = lambda done: os.kill(os.getpid(), signal.SIGTERM) if done == 2 else None
    with pytest.raises(SystemExit):
        run(job)
    packed = job.state / "packed" / "batches.bin"
    before = packed.stat().st_mtime_ns
    again = finetuning("stopped")
    seen = []
    again.progress.at = lambda done: seen.append(packed.stat().st_mtime_ns)
    stopped = run(again)
    assert set(seen) == {before} and again.progress.steps[0] == 3
    for name in ("model.safetensors", "optimizer.safetensors", "config.json", "log.parquet", "validation.parquet"):
        assert (stopped / name).read_bytes() == (undisturbed / name).read_bytes(), name


def test_packed_batches_that_were_damaged_are_packed_again(finetuning, tmp_path):
    job = finetuning("a")
    tokenizer = Tokenizer.load(job.input("tokenizer") / "tokenizer.json")
    pack = lambda: pack_ahead(tmp_path / "p", settings(), job.input("chatsets"), tokenizer, 32, job.progress)  # noqa: E731
    pack()
    whole = (tmp_path / "p" / "batches.bin").read_bytes()
    (tmp_path / "p" / "batches.bin").write_bytes(whole[:-4])
    pack()
    assert (tmp_path / "p" / "batches.bin").read_bytes() == whole


def test_a_checkpoint_without_alpha_is_refused(finetuning, run, results):
    job = finetuning("a")
    copy = results.root / "pretrain" / "copy@00000000ff"
    shutil.copytree(finetuning.base, copy)
    config = json.loads((copy / "config.json").read_text())
    del config["model"]["alpha"]
    (copy / "config.json").write_text(json.dumps(config))
    results.record(copy)
    job.inputs["checkpoint"] = copy
    with pytest.raises(UserError, match=r"the field model\.alpha is missing"):
        run(job)
