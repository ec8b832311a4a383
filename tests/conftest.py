"""What holds for all tests: property tests try fixed examples, and Ctrl-C can be sent."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
import structlog
from hypothesis import given
from hypothesis.strategies import none

from tests.examples import load_profile

load_profile()


@pytest.fixture(scope="session", autouse=True)
def _random_generator() -> None:
    """Have hypothesis register its random generator before any test.

    It looks for references to it then, and finds none after `gc.freeze()`, which the programs call: the first property
    test of a worker would fail if a test with such a program had run there before.
    """

    @given(none())
    def begin(nothing: None) -> None:
        pass

    begin()


@pytest.fixture(autouse=True)
def _logs_as_before() -> Iterator[None]:
    """Undo what a test, or the client in it, configured of structlog: later tests read the log."""
    yield
    if structlog.is_configured():
        structlog.reset_defaults()


# A shell that runs us in the background, or nohup, has these ignored, and so would our children.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
