"""Removal with `volcanoio uninstall` and `helm uninstall`: nothing of ours is left, and pods keep running."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator

import pytest

from tests.goclient.building import HELM, NotBuiltError, program
from tests.helmchart.rendering import CHART, RELEASE
from tests.realcluster.deployed.api import Obj
from tests.realcluster.deployed.installation import ROOT
from tests.realcluster.deployed.scenario import Scenario
from tests.realcluster.deployed.world import NAMESPACE, World, documents

CRDS = ROOT / "config" / "crds"
OF_CLUSTER = "mutatingwebhookconfigurations,validatingwebhookconfigurations,clusterroles,clusterrolebindings"
OF_NAMESPACE = "deployments,pods,services,leases,secrets,configmaps,serviceaccounts,roles,rolebindings,pdb"
MADE_BY_KUBERNETES = {"configmap/kube-root-ca.crt", "serviceaccount/default"}


def run(world: World, *words: str) -> str:
    """Run a program as the administrator."""
    environment = {**os.environ, "KUBECONFIG": str(world.plane.kubeconfig)}
    ran = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-2000:]
    return ran.stdout


def objects_of_ours(world: World) -> list[Obj]:
    """Return all objects of the kinds that config/crds defines."""
    names = [one["metadata"]["name"] for path in sorted(CRDS.glob("*.yaml")) for one in documents(path)]
    found: list[Obj] = json.loads(world.kubectl("get", ",".join(names), "-A", "-o", "json"))["items"]
    return found


def volcanoio(world: World, *words: str) -> str:
    return run(world, str(world.images[world.image].environment / "bin" / "volcanoio"), *words)


def left(world: World) -> set[str]:
    """Return what is left of the installation."""
    names = world.kubectl("get", OF_CLUSTER, "-o", "name", "-l", "app.kubernetes.io/name=volcanoio").split()
    names += world.kubectl("get", OF_NAMESPACE, "-o", "name", "-n", NAMESPACE).split()
    return set(names) - MADE_BY_KUBERNETES


def with_volcanoio(world: World) -> Callable[[], str]:
    volcanoio(world, "install")
    return lambda: volcanoio(world, "uninstall")


def with_helm(world: World) -> Callable[[], str]:
    volcanoio(world, "install", "--only-crds")
    flags = ("--namespace", NAMESPACE, "--wait")
    run(world, str(program(HELM)), "install", RELEASE, str(CHART), *flags)

    def uninstall() -> str:
        begin = world.audit.size()
        said = run(world, str(program(HELM)), "uninstall", RELEASE, "--namespace", NAMESPACE, "--wait")
        # Helm deletes the rights of processes that are still ending: they cannot release their lease any more.
        world.until(lambda: not left(world), lambda: f"nothing is left, but there is {left(world)}")
        world.audit.removals.append((begin, world.audit.size()))
        return said

    return uninstall


@pytest.fixture(params=[with_volcanoio, with_helm], ids=["volcanoio", "helm"])
def remove(installed: World, request: pytest.FixtureRequest) -> Iterator[Callable[[], str]]:
    """An installation of each kind; afterwards that of the other scenarios is back."""
    if request.param is with_helm:
        try:
            program(HELM)
        except NotBuiltError as error:
            pytest.skip(f"HELM WAS NOT TESTED: {error}")
    volcanoio(installed, "uninstall")
    uninstall = request.param(installed)
    installed.rolled_out()
    yield uninstall
    installed.kubectl("create", "namespace", NAMESPACE, check=False)
    installed.install()


def test_an_uninstalled_cluster_keeps_its_jobs_and_running_pods(scenario: Scenario, remove: Callable[[], str]) -> None:
    world = scenario.world
    scenario.submit(scenario.job("long", replicas=4, seconds=600))
    scenario.all_in("Running", 1)
    before = {name: pod["metadata"]["uid"] for name, pod in world.pods_of(scenario.namespace).items()}
    remove()
    world.until(lambda: not left(world), lambda: f"nothing is left, but there is {left(world)}")
    pods = world.pods_of(scenario.namespace)
    assert {name: pod["metadata"]["uid"] for name, pod in pods.items()} == before
    assert {pod["status"]["phase"] for pod in pods.values()} == {"Running"}
    assert not any("deletionTimestamp" in pod["metadata"] for pod in pods.values())
    assert [one for one in objects_of_ours(world) if "finalizers" in one["metadata"]] == []
    world.kubectl("delete", "jobs.batch.volcano.sh", "long", "-n", scenario.namespace, "--timeout=30s")


def test_webhooks_and_leases_are_filled_in_and_stay_filled_when_installed_again(scenario: Scenario) -> None:
    world = scenario.world
    world.kubectl("apply", "--server-side", "-f", str(ROOT / "config" / "deploy" / "40-webhooks.yaml"))
    for kind in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"):
        for one in world.get(kind)["items"]:
            if one["metadata"]["labels"].get("app.kubernetes.io/name") == "volcanoio":
                assert len(one["webhooks"]) == 1, one["metadata"]["name"]
                assert one["webhooks"][0]["clientConfig"]["caBundle"]
    assert {"tls.crt", "tls.key", "ca.crt"} <= world.get("secret", "volcano-admission-secret", NAMESPACE)["data"].keys()
    for lease in ("volcano", "vc-controller-manager"):
        assert world.get("lease", lease, NAMESPACE)["spec"]["holderIdentity"]


def test_a_purge_removes_every_definition_and_leaves_the_pods(scenario: Scenario) -> None:
    world = scenario.world
    scenario.submit(scenario.job("long", replicas=4, seconds=600))
    scenario.all_in("Running", 1)
    before = {name: pod["metadata"]["uid"] for name, pod in world.pods_of(scenario.namespace).items()}
    try:
        volcanoio(world, "uninstall", "--purge-crds", "--yes")
        world.until(lambda: not left(world), lambda: f"nothing is left, but there is {left(world)}")
        assert "volcano.sh" not in world.kubectl("get", "crds", "-o", "name")
        pods = world.pods_of(scenario.namespace)
        assert {name: pod["metadata"]["uid"] for name, pod in pods.items()} == before
        assert {pod["status"]["phase"] for pod in pods.values()} == {"Running"}
        assert not any("deletionTimestamp" in pod["metadata"] for pod in pods.values())
    finally:
        world.kubectl("create", "namespace", NAMESPACE, check=False)
        world.install()
