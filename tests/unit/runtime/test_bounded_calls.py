"""Code of others that does not come back is given up, and what computes is made to stop."""

from __future__ import annotations

import threading

import pytest

from volcanoio.runtime.policies.calls import BoundedCall, OverrunError, interrupt


def test_a_background_call_returns_the_result_of_the_call() -> None:
    done = threading.Event()
    bounded = BoundedCall(lambda: 7, "test", done.set)
    assert bounded.wait(5) == 7
    assert done.wait(5)


def test_a_background_call_raises_the_exception_of_the_call() -> None:
    def call() -> None:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        BoundedCall(call, "test").wait(5)


def test_a_loop_is_given_up_and_ends() -> None:
    def call() -> None:
        while True:
            pass

    done = threading.Event()
    bounded = BoundedCall(call, "test", done.set)
    with pytest.raises(OverrunError, match=r"longer than its limit of 0.05 s"):
        bounded.wait(0.05)
    bounded.thread.join(10)
    assert not bounded.thread.is_alive()
    assert not done.is_set()


def test_a_thread_that_ended_is_not_interrupted() -> None:
    bounded = BoundedCall(lambda: None, "test")
    bounded.thread.join(10)
    interrupt(bounded.thread)
