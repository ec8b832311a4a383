"""The two clients have one shape."""

from __future__ import annotations

import inspect

import pytest

from volcanoio.client import AsyncClient, AsyncJob, Client, Job


def public(cls: type) -> set[str]:
    return {name for name, _ in inspect.getmembers(cls) if not name.startswith("_")}


@pytest.mark.parametrize(("asynchronous", "blocking"), [(AsyncClient, Client), (AsyncJob, Job)])
def test_methods_and_their_parameters_are_the_same(asynchronous: type, blocking: type) -> None:
    assert public(asynchronous) == public(blocking)
    for name in public(asynchronous):
        theirs, ours = getattr(asynchronous, name), getattr(blocking, name)
        assert isinstance(theirs, property) == isinstance(ours, property)
        if not isinstance(theirs, property):
            assert inspect.signature(theirs).parameters.keys() == inspect.signature(ours).parameters.keys()
            assert theirs.__doc__ == ours.__doc__
