"""The limit of CPU time ends what does not end by itself, and names where."""

from __future__ import annotations

import re
from contextlib import suppress

import pytest

from tests.fuzz.limits import HangError, cpu_limit


def _endless() -> None:
    while True:
        with suppress(Exception):  # code that goes on after every error
            pass


@pytest.mark.parametrize("hang", [_endless, lambda: re.match(r"(a+)+$", "a" * 60 + "b")], ids=["loop", "re"])
def test_a_hang_is_an_error_that_names_its_place(hang: object) -> None:
    assert callable(hang)
    with pytest.raises(HangError, match=r"no end after 0\.1 s of CPU time in \S+ \(.*\.py:\d+\)"), cpu_limit(0.1):
        hang()


def test_work_that_ends_is_not_disturbed() -> None:
    with cpu_limit():
        assert sum(range(1000)) == 499500
