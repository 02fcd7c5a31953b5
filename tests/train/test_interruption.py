"""When a training saves: every so many minutes, and never so often that saving takes more than 5 % of the time."""

from __future__ import annotations

import pytest

from xsa.train.interruption import Interruption


class Clock:
    """A clock that is set by hand, in seconds."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_state_is_due_when_the_minutes_have_passed_since_the_last_save_ended():
    clock = Clock()
    watch = Interruption(10, 0.05, clock)
    for begun in (0, 1):
        clock.now += 599
        assert not watch.due(), begun
        clock.now += 1
        assert watch.due()
        with watch.saving():
            clock.now += 3


@pytest.mark.parametrize("save_seconds", [1, 31, 90, 600])
def test_saving_takes_at_most_five_percent_however_long_one_save_takes(save_seconds):
    clock, spent = Clock(), 0
    watch = Interruption(10, 0.05, clock)
    while clock.now < 1000 + 50_000:
        clock.now += 7  # a step
        if watch.due():
            with watch.saving():
                clock.now += save_seconds
                spent += save_seconds
    assert spent >= save_seconds, "it does save"
    assert spent / (clock.now - 1000) <= 0.05


def test_a_save_that_failed_is_not_tried_again_at_once():
    clock = Clock()
    watch = Interruption(1, 0.05, clock)
    clock.now += 60
    with pytest.raises(OSError), watch.saving():
        clock.now += 30
        raise OSError("no space left")
    clock.now += 599
    assert not watch.due()
    clock.now += 1
    assert watch.due()
