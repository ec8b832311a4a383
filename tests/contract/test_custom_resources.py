"""Custom resources from their definition to their end."""

from __future__ import annotations

from tests.contract.support import Cluster, Namespace, established, eventually, gone, unique
from tests.contract.widgets import PLURAL, definition, widget


def test_defaults_are_filled_in_and_unknown_fields_dropped(namespace: Namespace) -> None:
    body = widget("w", unknown={"deep": 1})
    created = namespace.cluster.create(namespace.path(PLURAL), body, fieldValidation="Ignore").ok()
    assert created["spec"] == {"size": 1, "color": "red"}
    strict = namespace.cluster.create(namespace.path(PLURAL), widget("v", unknown=1), fieldValidation="Strict")
    assert "unknown" in strict.refused(400, "BadRequest")["message"]


def test_lists_in_a_merge_patch_are_replaced(namespace: Namespace) -> None:
    namespace.cluster.create(namespace.path(PLURAL), widget("w", parts=["a", "b"])).ok()
    patched = namespace.cluster.patch(namespace.path(PLURAL, "w"), {"spec": {"parts": ["c"]}}).ok()
    assert patched["spec"]["parts"] == ["c"]


def test_a_replacement_needs_a_version(namespace: Namespace) -> None:
    namespace.cluster.create(namespace.path(PLURAL), widget("w")).ok()
    status = namespace.cluster.replace(namespace.path(PLURAL, "w"), widget("w", size=2)).refused(422, "Invalid")
    assert "resourceVersion" in status["message"]


def test_a_definition_is_created_and_deleted(cluster: Cluster) -> None:
    group = f"{unique('contract')}.volcanoio.dev"
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    assert cluster.get(f"/apis/{group}/v1/widgets").code == 404
    cluster.create(path, definition(group)).ok()
    established(cluster, f"widgets.{group}")
    # Right after a definition changed, a server may ask clients to come again in a second.
    listed = eventually(lambda: answer if (answer := cluster.get(f"/apis/{group}/v1/widgets")).code != 429 else None)
    assert listed.ok()["kind"] == "WidgetList"
    cluster.delete(f"{path}/widgets.{group}").ok()
    gone(cluster, f"{path}/widgets.{group}")
    eventually(lambda: cluster.get(f"/apis/{group}/v1/widgets").code == 404 or None)


def test_an_unfit_definition_is_refused(cluster: Cluster) -> None:
    body = definition()
    body["metadata"]["name"] = "wrong.name"
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    cluster.create(path, body).refused(422, "Invalid")
