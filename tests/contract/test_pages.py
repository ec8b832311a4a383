"""Lists in pages: of one moment, with what remains, and tokens that cannot be used."""

from __future__ import annotations

import pytest

from tests.contract.support import Namespace, Obj

NAMES = list("abcdefg")


@pytest.fixture
def stored(namespace: Namespace) -> Namespace:
    """A namespace with seven Secrets."""
    for name in NAMES:
        namespace.cluster.create(namespace.path("secrets"), {"metadata": {"name": name, "labels": {"x": "y"}}}).ok()
    return namespace


def names(listed: Obj) -> list[str]:
    return [one["metadata"]["name"] for one in listed["items"]]


def test_pages_show_the_state_at_the_first_page(stored: Namespace) -> None:
    path = stored.path("secrets")
    first = stored.cluster.get(path, limit=3).ok()
    assert (names(first), first["metadata"]["remainingItemCount"]) == (NAMES[:3], 4)
    stored.cluster.create(path, {"metadata": {"name": "bb"}}).ok()
    stored.cluster.delete(f"{path}/e").ok()
    second = stored.cluster.get(path, limit=3, **{"continue": first["metadata"]["continue"]}).ok()
    assert (names(second), second["metadata"]["remainingItemCount"]) == (NAMES[3:6], 1)
    last = stored.cluster.get(path, limit=3, **{"continue": second["metadata"]["continue"]}).ok()
    assert names(last) == NAMES[6:]
    assert not last["metadata"].get("continue")
    assert {page["metadata"]["resourceVersion"] for page in (first, second, last)} == {
        first["metadata"]["resourceVersion"]
    }


def test_a_token_may_be_used_twice_and_without_a_limit(stored: Namespace) -> None:
    path = stored.path("secrets")
    token = {"continue": stored.cluster.get(path, limit=3).ok()["metadata"]["continue"]}
    for _ in range(2):
        assert names(stored.cluster.get(path, **token).ok()) == NAMES[3:]


def test_remaining_items_of_a_selection_are_not_counted(stored: Namespace) -> None:
    listed = stored.cluster.get(stored.path("secrets"), limit=2, labelSelector="x=y").ok()
    assert names(listed) == NAMES[:2]
    assert listed["metadata"]["continue"]
    assert "remainingItemCount" not in listed["metadata"]


def test_any_version_returns_no_pages(stored: Namespace) -> None:
    # From its cache; a cache that has just been made may not have it all yet.
    listed = stored.cluster.get(stored.path("secrets"), limit=2, resourceVersion="0").ok()
    assert not listed["metadata"].get("continue")


def test_a_token_comes_without_a_version(stored: Namespace) -> None:
    path = stored.path("secrets")
    first = stored.cluster.get(path, limit=3).ok()["metadata"]
    query = {"continue": first["continue"], "resourceVersion": first["resourceVersion"]}
    status = stored.cluster.get(path, **query).refused(400, "BadRequest")
    assert status["message"] == "specifying resource version is not allowed when using continue"


@pytest.mark.parametrize("limit", [7, 100])
def test_a_page_that_holds_all_is_the_last(stored: Namespace, limit: int) -> None:
    listed = stored.cluster.get(stored.path("secrets"), limit=limit).ok()
    assert names(listed) == NAMES
    assert not listed["metadata"].get("continue")
