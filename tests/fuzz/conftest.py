"""Each input of each property test here has a limit of CPU time."""

from __future__ import annotations

import pytest

from tests.fuzz.limits import limited


def pytest_itemcollected(item: pytest.Item) -> None:
    handle = getattr(getattr(item, "obj", None), "hypothesis", None)
    if handle is not None and not hasattr(handle.inner_test, "__wrapped__"):  # once for all parameters of a test
        handle.inner_test = limited(handle.inner_test)
