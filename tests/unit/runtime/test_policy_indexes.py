"""What policies read: a fold of changes, steady for a question."""

from __future__ import annotations

import pytest

from volcanoio.framework.events import Change, Observed
from volcanoio.model.base import ObjectMeta
from volcanoio.model.core import Node, Pod
from volcanoio.runtime.policies.indexes import ObjectIndexes


def pod(name: str, namespace: str = "ns", uid: str = "u") -> Pod:
    return Pod(metadata=ObjectMeta(namespace=namespace, name=name, uid=uid))


def seen(change: Change, obj: Pod) -> Observed:
    return Observed(resource="pods", change=change, object=obj)


def test_reads_within_a_question_are_stable() -> None:
    indexes = ObjectIndexes()
    assert not indexes
    indexes.fold(seen(Change.APPEARED, pod("ignored")))
    indexes.add("pods", [pod("a"), pod("b", "other")])
    view = indexes.view(["pods"])["pods"]
    assert list(view.in_namespace("ns")) == ["a"]
    indexes.fold(seen(Change.APPEARED, pod("c")))
    indexes.fold(seen(Change.GONE, pod("a")))
    assert list(view.in_namespace("ns")) == ["a"]
    later = indexes.view(["pods"])["pods"]
    assert list(later) == ["ns/c", "other/b"]
    assert len(later) == 2
    assert later["other/b"].metadata.name == "b"
    with pytest.raises(KeyError):
        later["ns/a"]


def test_cluster_scoped_objects_are_read_by_name() -> None:
    indexes = ObjectIndexes()
    indexes.add("nodes", [Node(metadata=ObjectMeta(name="n"))])
    view = indexes.view(["nodes"])["nodes"]
    assert list(view) == ["n"]
    assert view.get("n") is not None
    assert view.get("m") is None
    assert dict(indexes.view(["pods"])["pods"]) == {}
