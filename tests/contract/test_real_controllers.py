"""The real kube-controller-manager on the embedded server: informers of all kinds, a lease, and what they make."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.embedded import embedded_server
from tests.contract.kubectls import USED, Kubectl, installed, newest
from tests.contract.support import FOREIGN, Cluster, Namespace, gone, unique, wait_until_stable
from tests.realcluster.binaries import NoBinariesError, find
from tests.realcluster.processes import running

pytestmark = [*USED, pytest.mark.skipif(FOREIGN in os.environ, reason="about the embedded server alone")]
PROGRAM = "kube-controller-manager"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/{PROGRAM}"
SECONDS = 60


@pytest.fixture(scope="module")
def manager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """An embedded server without controllers of its own, and a real controller manager that leads there."""
    try:
        program = find().path(PROGRAM)
    except NoBinariesError as error:
        pytest.skip(f"the real {PROGRAM} was NOT TRIED: {error}")
    directory = tmp_path_factory.mktemp("manager")
    with embedded_server(directory, roster=()) as kubeconfig:
        cluster = Cluster.of(kubeconfig)
        command = [program, f"--kubeconfig={kubeconfig}", "--secure-port=0", "--leader-elect=true"]
        with running(PROGRAM, command, directory / "log") as server:
            server.wait(lambda: cluster.get(LEASE).code == 200, SECONDS)
            yield cluster
        cluster.close()


@pytest.fixture
def place(manager: Cluster) -> Namespace:
    """A namespace that the manager has made ready."""
    name = unique("managed")
    manager.create("/api/v1/namespaces", {"metadata": {"name": name}}).ok()
    wait_until_stable(manager, name)
    return Namespace(manager, name)


@pytest.fixture
def managed(place: Namespace, homes: Path) -> Kubectl:
    home = homes / "managed"
    home.mkdir(exist_ok=True)
    return Kubectl(installed()[newest()], place.cluster.kubeconfig, home, place.name)


def test_a_deployment_creates_and_deletes_its_pods(managed: Kubectl, place: Namespace) -> None:
    managed("create", "deployment", "web", "--image=busybox", "--replicas=2")
    managed("wait", "--for=jsonpath={.status.updatedReplicas}=2", "deploy/web", "--timeout=60s")
    pods = json.loads(managed("get", "pods", "-l", "app=web", "-o", "json"))["items"]
    assert [one["metadata"]["ownerReferences"][0]["kind"] for one in pods] == ["ReplicaSet"] * 2
    managed("delete", "deploy", "web", "--cascade=foreground", "--timeout=60s")
    assert managed("get", "rs,pods", "-o", "name") == ""
    place.cluster.delete(f"/api/v1/namespaces/{place.name}").ok()
    gone(place.cluster, f"/api/v1/namespaces/{place.name}")


def test_a_stateful_set_and_a_job(managed: Kubectl, place: Namespace) -> None:
    labels = {"app": "db"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "busybox"}]}}
    spec = {"serviceName": "db", "replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    stateful = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"}, "spec": spec}
    managed("create", "-f", "-", manifest=stateful)
    managed("wait", "--for=jsonpath={.status.currentReplicas}=1", "sts/db", "--timeout=60s")
    managed("create", "job", "once", "--image=busybox")
    managed("wait", "--for=jsonpath={.status.active}=1", "job/once", "--timeout=60s")
    (pod,) = json.loads(managed("get", "pods", "-l", "job-name=once", "-o", "json"))["items"]
    done = {"phase": "Succeeded", "conditions": [{"type": "Ready", "status": "False"}]}
    path = place.path("pods", pod["metadata"]["name"], "status")
    place.cluster.patch(path, {"status": done}).ok()
    managed("wait", "--for=condition=Complete", "job/once", "--timeout=60s")


def test_budgets_and_quotas_are_counted(managed: Kubectl) -> None:
    managed("create", "quota", "few", "--hard=pods=5")
    managed("wait", "--for=jsonpath={.status.hard.pods}=5", "quota/few", "--timeout=60s")
    managed("create", "pdb", "some", "--selector=app=web", "--min-available=1")
    managed("wait", "--for=jsonpath={.status.desiredHealthy}=1", "pdb/some", "--timeout=60s")
