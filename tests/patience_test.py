"""Limits that stretch: what passes on the clock, and what is ended by it."""
import subprocess

import patience
import pytest


def test_a_busy_machines_seconds_are_longer():
    idle, busy = patience.Clock(lambda: 1), patience.Clock(lambda: 10)
    assert patience.until(lambda: idle.seconds >= 1, 60)
    assert busy.seconds < idle.seconds / 2


def test_calls_come_in_their_time_or_not_at_all():
    called = []
    patience.call_after(0.2, lambda: called.append("second"))
    patience.call_after(0.1, lambda: called.append("first"))
    patience.call_after(0.1, lambda: called.append("never"))()
    assert patience.until(lambda: len(called) == 2)
    assert called == ["first", "second"]


def test_until_gives_what_came_or_did_not():
    assert patience.until(lambda: 7) == 7
    assert patience.until(lambda: [], 0.1) == []


def test_a_command_that_takes_too_long_is_ended():
    with pytest.raises(subprocess.TimeoutExpired, match="0.3 seconds"):
        patience.run(["sleep", "100000"], timeout=0.3)


@pytest.mark.parametrize("text", [b"", b"line\n" * 200_000])
def test_a_slow_reader_gets_its_whole_input(text):
    """It takes longer than the pieces in which its end is waited for."""
    done = patience.run(["sh", "-c", "sleep 0.5; cat"], input=text, capture_output=True)
    assert done.stdout == text and done.returncode == 0


def test_a_command_that_fails_can_be_an_error():
    with pytest.raises(subprocess.CalledProcessError):
        patience.run(["false"], check=True)
