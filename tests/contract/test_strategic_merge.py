"""Where a strategic merge patch puts the items of a list."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.support import STRATEGIC, Namespace


def _items(*names: str) -> list[dict[str, str]]:
    return [{"name": name, "image": "busybox"} for name in names]


@pytest.mark.parametrize(
    ("patch", "names"),
    [
        ({"containers": _items("new")}, "new a b c"),
        ({"containers": _items("b", "new")}, "a b new c"),
        ({"containers": _items("c", "a")}, "b c a"),
        ({"containers": _items("b", "a")}, "b a c"),
        ({"containers": [{"name": "b", "$patch": "delete"}, *_items("new")]}, "new a c"),
        ({"$setElementOrder/containers": _items("a", "new"), "containers": _items("new")}, "a new b c"),
        ({"$setElementOrder/containers": _items("c", "new", "a"), "containers": _items("new")}, "b c new a"),
        ({"$setElementOrder/containers": _items("c", "b")}, "a c b"),
    ],
)
def test_the_order_of_items(namespace: Namespace, patch: dict[str, Any], names: str) -> None:
    body = {"metadata": {"name": "x"}, "template": {"spec": {"containers": _items("a", "b", "c")}}}
    namespace.cluster.create(namespace.path("podtemplates"), body).ok()
    path = namespace.path("podtemplates", "x")
    patched = namespace.cluster.patch(path, {"template": {"spec": patch}}, STRATEGIC).ok()
    assert " ".join(one["name"] for one in patched["template"]["spec"]["containers"]) == names


@pytest.mark.parametrize(
    ("patch", "names"),
    [
        ({"finalizers": ["x/new"]}, "x/new x/a x/b"),
        ({"finalizers": ["x/b", "x/a"]}, "x/b x/a"),
        ({"$deleteFromPrimitiveList/finalizers": ["x/a"]}, "x/b"),
        ({"$deleteFromPrimitiveList/finalizers": ["x/a"], "finalizers": ["x/c"]}, "x/c x/b"),
        ({"$setElementOrder/finalizers": ["x/b", "x/c"], "finalizers": ["x/c"]}, "x/a x/b x/c"),
    ],
)
def test_the_order_of_plain_values(namespace: Namespace, patch: dict[str, Any], names: str) -> None:
    path = namespace.path("configmaps", "x")
    body = {"metadata": {"name": "x", "finalizers": ["x/a", "x/b"]}}
    namespace.cluster.create(namespace.path("configmaps"), body).ok()
    patched = namespace.cluster.patch(path, {"metadata": patch}, STRATEGIC).ok()
    namespace.cluster.patch(path, {"metadata": {"finalizers": None}}).ok()
    assert " ".join(patched["metadata"]["finalizers"]) == names
