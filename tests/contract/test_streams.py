"""exec, attach and port-forward up to the point where a kubelet takes over."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.support import Namespace, unique

CONTAINERS = [{"name": name, "image": "busybox", "command": ["sleep", "3600"]} for name in ("a", "b")]


@pytest.mark.parametrize("subresource", ["exec", "attach"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_the_container_has_to_be_one_of_the_pod(namespace: Namespace, subresource: str, method: str) -> None:
    name = unique("pod")
    namespace.pod(name, containers=CONTAINERS)
    path = namespace.path("pods", name, subresource)
    query: dict[str, Any] = {"command": "true", "stdout": True}
    for container, text in (
        ("", f"a container name must be specified for pod {name}, choose one of: [a b]"),
        ("nope", f"container nope is not valid for pod {name}"),
        ("a", f"pod {name} does not have a host assigned"),
    ):
        answer = namespace.cluster.request(method, path, **query, container=container)
        assert answer.refused(400, "BadRequest")["message"] == text


@pytest.mark.parametrize("subresource", ["exec", "attach", "portforward"])
def test_other_methods_and_pods_are_refused(namespace: Namespace, subresource: str) -> None:
    name = unique("pod")
    namespace.pod(name)
    namespace.cluster.replace(namespace.path("pods", name, subresource), {}).refused(405, "MethodNotAllowed")
    missing = namespace.cluster.get(namespace.path("pods", "nope", subresource), command="true", stdout=True)
    assert missing.refused(404, "NotFound")["message"] == 'pods "nope" not found'


def test_they_are_discovered(namespace: Namespace) -> None:
    listed = {one["name"]: one for one in namespace.cluster.get("/api/v1").ok()["resources"]}
    for name, kind in (
        ("exec", "PodExecOptions"), ("attach", "PodAttachOptions"), ("portforward", "PodPortForwardOptions"),
    ):  # fmt: skip
        one = listed[f"pods/{name}"]
        assert (one["kind"], one["verbs"], one["namespaced"]) == (kind, ["create", "get"], True)
