"""Pods on simulated nodes: they run, end, and go when they are deleted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.commands import run
from tests.contract.hollow import hollow_nodes
from tests.contract.support import Cluster, Namespace, Obj, eventually, pod, unique
from volcanoio.model.packaged import config_path

RUN, EXIT = "sim.volcanoio.dev/run-duration", "sim.volcanoio.dev/exit-code"


@pytest.fixture(scope="module")
def nodes(cluster: Cluster) -> Iterator[tuple[str, ...]]:
    with hollow_nodes(cluster, unique("n"), 2) as names:
        yield names


def bound(namespace: Namespace, node: str, annotations: dict[str, str] | None = None, **spec: Any) -> Obj:
    """A pod bound to a node."""
    body = pod("p", **spec)
    body["metadata"]["annotations"] = annotations or {}
    stored = namespace.cluster.create(namespace.path("pods"), body).ok()
    namespace.bind("p", node).ok()
    return stored


def awaited(namespace: Namespace, stored: Obj, wanted: Callable[[Obj], bool]) -> Obj:
    """The first event about the pod that is wanted."""
    start = stored["metadata"]["resourceVersion"]
    with namespace.cluster.watch(namespace.path("pods"), resourceVersion=start) as events:
        return next(event for event in events if wanted(event))


def in_phase(phase: str) -> Callable[[Obj], bool]:
    return lambda event: event["object"]["status"].get("phase") == phase


def test_nodes_are_ready_and_hold_leases(cluster: Cluster, nodes: tuple[str, ...]) -> None:
    for name in nodes:
        node = cluster.get(f"/api/v1/nodes/{name}").ok()
        conditions = {one["type"]: one["status"] for one in node["status"]["conditions"]}
        assert conditions["Ready"] == "True"
        assert node["status"]["allocatable"] == {
            "cpu": "8", "memory": "32Gi", "pods": "110", "ephemeral-storage": "100Gi",
        }  # fmt: skip
        lease = cluster.get(f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{name}").ok()
        assert (lease["spec"]["holderIdentity"], lease["spec"]["leaseDurationSeconds"]) == (name, 40)


def test_a_bound_pod_runs(namespace: Namespace, nodes: tuple[str, ...]) -> None:
    status = awaited(namespace, bound(namespace, nodes[0]), in_phase("Running"))["object"]["status"]
    conditions = {one["type"]: one["status"] for one in status["conditions"]}
    assert {conditions[kind] for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")} == {"True"}
    assert status["podIP"] == status["podIPs"][0]["ip"]
    assert status["hostIP"]
    assert status["startTime"]
    (container,) = status["containerStatuses"]
    assert (container["name"], container["ready"], list(container["state"])) == ("main", True, ["running"])


def test_a_pod_ends_as_its_command_does(namespace: Namespace, nodes: tuple[str, ...]) -> None:
    stored = bound(namespace, nodes[1], {RUN: "100ms", EXIT: "3"}, restartPolicy="Never")
    ended = awaited(namespace, stored, in_phase("Failed"))["object"]
    assert ended["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3


def test_a_deleted_pod_ends_in_its_grace_period(namespace: Namespace, nodes: tuple[str, ...]) -> None:
    stored = bound(namespace, nodes[0])
    running = awaited(namespace, stored, in_phase("Running"))["object"]
    answered = namespace.cluster.delete(namespace.path("pods", "p")).ok()
    assert answered["metadata"]["deletionGracePeriodSeconds"] == 30
    assert answered["metadata"]["deletionTimestamp"]
    last = awaited(namespace, running, lambda event: event["type"] == "DELETED")["object"]
    assert last["metadata"]["uid"] == stored["metadata"]["uid"]
    assert last["metadata"]["deletionGracePeriodSeconds"] == 0


def test_events_of_the_nodes_are_recorded(namespace: Namespace, nodes: tuple[str, ...]) -> None:
    bound(namespace, nodes[0])
    with namespace.cluster.watch(namespace.path("events"), fieldSelector="involvedObject.name=p") as events:
        reasons = {next(events)["object"]["reason"] for _ in range(3)}
    assert reasons == {"Pulled", "Created", "Started"}


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--count=-1",), 2, "--count"),
        (("--count=1", "--prefix=No_Name"), 2, "--prefix"),
        (("--count=1", "--node-resources=cpu=many"), 2, "--node-resources"),
        (("--count=1", "--kubeconfig=/nowhere"), 5, "no kubeconfig at /nowhere"),
    ],
)
def test_kinds_that_cannot_be_served_are_reported(
    cluster: Cluster, arguments: tuple[str, ...], code: int, said: str
) -> None:
    ran = run("hollow-nodes", f"--kubeconfig={cluster.kubeconfig}", *arguments)
    assert (ran.code, ran.out) == (code, "")
    assert said in ran.err


def test_a_successor_of_that_name_is_another_pod(namespace: Namespace, nodes: tuple[str, ...]) -> None:
    first = awaited(namespace, bound(namespace, nodes[0]), in_phase("Running"))["object"]
    namespace.cluster.delete(namespace.path("pods", "p"), {"gracePeriodSeconds": 0}).ok()
    second = awaited(namespace, bound(namespace, nodes[1]), in_phase("Running"))["object"]
    assert second["metadata"]["uid"] != first["metadata"]["uid"]
    assert second["status"]["podIP"] != first["status"]["podIP"]


def account(namespace: Namespace, directory: Path) -> Cluster:
    """The cluster as a service account of the namespace reaches it."""
    cluster, path = namespace.cluster, namespace.path("serviceaccounts")
    cluster.create(path, {"metadata": {"name": "nodes"}}).ok()
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = cluster.create(f"{path}/nodes/token", asked).ok()["status"]["token"]
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    config["users"] = [{"name": "nodes", "user": {"token": token}}]
    (where,) = [one for one in config["contexts"] if one["name"] == config["current-context"]]
    where["context"]["user"] = "nodes"
    kubeconfig = directory / "kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(config))
    return Cluster.of(kubeconfig)


def test_nodes_need_the_rights_of_their_role_and_no_more(namespace: Namespace, tmp_path: Path) -> None:
    own = account(namespace, tmp_path)
    if own.get("/api/v1/nodes").code == 403:
        ran = run("hollow-nodes", f"--kubeconfig={own.kubeconfig}", "--prefix=none", "--count=0")
        assert ran.code == 3
        assert "  patch nodes/status\n" in ran.err
        assert "config/rbac/hollow-nodes.yaml" in ran.err
    role = yaml.safe_load((config_path("rbac") / "hollow-nodes.yaml").read_text())
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    if namespace.cluster.create(f"{rbac}/clusterroles", role).code == 409:  # of another version, maybe
        namespace.cluster.replace(f"{rbac}/clusterroles/{role['metadata']['name']}", role).ok()
    binding = {
        "metadata": {"name": namespace.name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role["metadata"]["name"]},
        "subjects": [{"kind": "ServiceAccount", "name": "nodes", "namespace": namespace.name}],
    }
    namespace.cluster.create(f"{rbac}/clusterrolebindings", binding).ok()
    eventually(lambda: own.get("/api/v1/nodes").code == 200 or None)
    with hollow_nodes(own, unique("r"), 1) as (node,):
        stored = bound(namespace, node, {RUN: "100ms"}, restartPolicy="Never")
        awaited(namespace, stored, in_phase("Succeeded"))
    own.close()
    namespace.cluster.delete(f"{rbac}/clusterrolebindings/{namespace.name}").ok()


def test_the_addresses_of_a_node_stay(cluster: Cluster) -> None:
    name = unique("blocked")
    cluster.create("/api/v1/nodes", {"metadata": {"name": name}, "spec": {"podCIDR": "10.9.0.0/24"}}).ok()
    refused = cluster.patch(f"/api/v1/nodes/{name}", {"spec": {"podCIDR": "10.8.0.0/24"}}).refused(422, "Invalid")
    assert [cause["field"] for cause in refused["details"]["causes"]] == ["spec.podCIDRs"]
    cluster.delete(f"/api/v1/nodes/{name}").ok()
