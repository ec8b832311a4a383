"""kubectl apply: server-side, over what was applied client-side, with conflicts; what it shows of managers."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.contract.appliers import managers
from tests.contract.kubectls import Kubectl, installed
from tests.contract.support import MERGE, Namespace, Obj

pytestmark = [
    pytest.mark.kubectl,
    pytest.mark.skipif(not installed(), reason="no kubectl on this machine; set KUBECTL to the path of one"),
]

SERVER_SIDE = ("apply", "--server-side", "-f", "-")


def _config_map(**data: str) -> Obj:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": data}


def _deployment(image: str, replicas: int = 0) -> Obj:
    template = {
        "metadata": {"labels": {"app": "x"}},
        "spec": {"containers": [{"name": "main", "image": image, "ports": [{"containerPort": 80}]}]},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "x"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "x"}}, "template": template},
    }


def _stored(namespace: Namespace, plural: str = "configmaps") -> Obj:
    return namespace.cluster.get(namespace.path(plural, "x")).ok()


def test_server_side(any_kubectl: Kubectl, namespace: Namespace) -> None:
    assert any_kubectl(*SERVER_SIDE, manifest=_config_map(a="1")) == "configmap/x serverside-applied\n"
    any_kubectl(*SERVER_SIDE, manifest=_config_map(a="2", b="1"))
    assert _stored(namespace)["data"] == {"a": "2", "b": "1"}
    refused = any_kubectl.run(*SERVER_SIDE, "--field-manager=other", manifest=_config_map(a="3"))
    assert refused.code == 1
    assert 'conflict with "kubectl": .data.a' in refused.err
    any_kubectl(*SERVER_SIDE, "--field-manager=other", "--force-conflicts", manifest=_config_map(a="3"))
    assert managers(_stored(namespace)) == {("kubectl", "Apply"): {"data.b"}, ("other", "Apply"): {"data.a"}}
    any_kubectl(*SERVER_SIDE, manifest=_config_map())
    assert _stored(namespace)["data"] == {"a": "3"}


def test_server_side_apply_after_client_side_apply(any_kubectl: Kubectl, namespace: Namespace) -> None:
    """The fields move to the server-side manager: nothing conflicts, and what is dropped later goes."""
    any_kubectl("apply", "-f", "-", manifest=_deployment("busybox:1"))
    any_kubectl(*SERVER_SIDE, manifest=_deployment("busybox:2"))
    stored = _stored(namespace, "deployments.v1.apps")
    assert stored["spec"]["template"]["spec"]["containers"][0]["image"] == "busybox:2"
    assert ("kubectl", "Apply") in managers(stored)
    smaller = _deployment("busybox:2")
    del smaller["spec"]["template"]["spec"]["containers"][0]["ports"]
    any_kubectl(*SERVER_SIDE, manifest=smaller)
    (container,) = _stored(namespace, "deployments.v1.apps")["spec"]["template"]["spec"]["containers"]
    assert "ports" not in container


def test_the_last_applied_configuration(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", manifest=_config_map(a="1"))
    assert yaml.safe_load(kubectl("apply", "view-last-applied", "configmap/x", "-o", "yaml"))["data"] == {"a": "1"}
    kubectl(*SERVER_SIDE, manifest=_config_map(a="2"))
    assert yaml.safe_load(kubectl("apply", "view-last-applied", "configmap/x", "-o", "yaml"))["data"] == {"a": "2"}


def test_managed_fields_are_shown_when_asked_for(kubectl: Kubectl) -> None:
    kubectl("create", "configmap", "x", "--from-literal=a=1")
    shown: Any = yaml.safe_load(kubectl("get", "configmap", "x", "-o", "yaml", "--show-managed-fields"))
    (entry,) = shown["metadata"]["managedFields"]
    assert (entry["manager"], entry["operation"]) == ("kubectl-create", "Update")
    assert "managedFields" not in kubectl("get", "configmap", "x", "-o", "yaml")


def test_a_server_side_diff(kubectl: Kubectl, namespace: Namespace) -> None:
    kubectl(*SERVER_SIDE, manifest=_config_map(a="1"))
    same = kubectl.run("diff", "--server-side", "-f", "-", manifest=_config_map(a="1"))
    assert (same.code, same.out) == (0, "")
    differs = kubectl.run("diff", "--server-side", "-f", "-", manifest=_config_map(a="2"))
    assert differs.code == 1
    assert "+  a: " in differs.out
    assert _stored(namespace)["data"] == {"a": "1"}


def test_each_verb_has_its_manager(kubectl: Kubectl, namespace: Namespace) -> None:
    kubectl("create", "configmap", "x", "--from-literal=a=1")
    kubectl("label", "configmap", "x", "l=1")
    kubectl("annotate", "configmap", "x", "n=1")
    kubectl("patch", "configmap", "x", "--type=merge", "-p", '{"data":{"p":"1"}}')
    namespace.cluster.patch(namespace.path("configmaps", "x"), {"data": {"b": "1"}}, MERGE, fieldManager="other").ok()
    found = managers(_stored(namespace))
    assert {who for who, _ in found} == {
        "kubectl-create",
        "kubectl-label",
        "kubectl-annotate",
        "kubectl-patch",
        "other",
    }
    assert found["kubectl-create", "Update"] == {"data", "data.a"}
