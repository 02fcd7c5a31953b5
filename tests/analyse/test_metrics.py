"""What a number's source says, from the JSON that its stage wrote."""

from __future__ import annotations

from types import SimpleNamespace

from xsa.analyse.metrics import METRICS

CHATCORE = next(metric for metric in METRICS if metric.id == "chatcore")


def told(**result) -> str:
    return CHATCORE.told_source(SimpleNamespace(json=lambda cell, stage, file: result), None)


def test_a_score_says_checkpoint_form_limits_and_when_it_was_taken():
    source = {"checkpoint": "chat", "tasks": "5 of 6", "items": "limited", "taken": "in a run of its own"}
    tasks = {"gsm8k": {"truncated": 7}, "humaneval": {"truncated": 1}}
    said = told(source=source, max_per_task=60, baselines="chat6", partial={}, tasks=tasks, max_new_tokens=512)
    assert said == (
        "stage chatcore, a run of its own after fine-tuning; chat checkpoint, 5 of 6 tasks, limited: at most 60 items a task, "
        "chance by table chat6, 8 answers cut at 512 tokens"
    )


def test_a_full_score_says_so():
    assert "chat checkpoint, full: all items" in told(source={"checkpoint": "chat", "tasks": "full"}, max_per_task=None)


def test_sets_smaller_than_published_are_named_with_both_counts():
    partial = {"squad": {"items": 1515, "published": 10570}}
    assert told(partial=partial, tasks={"squad": {}, "copa": {}}).endswith(
        "smaller than published: squad (1,515 of 10,570)"
    )
    assert told(partial=["squad", "coqa"], tasks={name: {} for name in "abc"}).endswith(
        "smaller than published: squad coqa"
    )
    assert told(partial=partial, tasks={"squad": {}}).endswith("every set smaller than published")
