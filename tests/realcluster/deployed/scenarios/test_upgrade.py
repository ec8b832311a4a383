"""From Volcano and back: docs/upgrade-from-volcano.md on a cluster that has Volcano's definitions, objects and pods.

The commands are those of the page, in the order in which it has them.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.goclient.building import HELM, NotBuiltError, program
from tests.realcluster.deployed.api import Obj
from tests.realcluster.deployed.installation import ROOT
from tests.realcluster.deployed.kubelet import Kubelet, Machine
from tests.realcluster.deployed.scenario import Scenario
from tests.realcluster.deployed.volcano import KEPT, State, write_chart, write_file
from tests.realcluster.deployed.world import COMPONENTS, NAMESPACE, World

PAGE = ROOT / "docs" / "upgrade-from-volcano.md"
TRIAL, BESIDE = "Run the scheduler beside Volcano's", "volcanoio-system"
KINDS = (
    "jobs.batch.volcano.sh",
    "queues.scheduling.volcano.sh",
    "cronjobs.batch.volcano.sh",
    "jobtemplates.flow.volcano.sh",
    "hypernodes.topology.volcano.sh",
    "numatopologies.nodeinfo.volcano.sh",
    "nodeshards.shard.volcano.sh",
    "colocationconfigurations.config.volcano.sh",
)
COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*)$", re.MULTILINE)
QUIET_SECONDS = 3.0
"""How long objects of another scheduler are watched for a write of ours."""


def commands(title: str, block: int = 0) -> str:
    """Return the commands of a block of a section of the page as a script."""
    section = PAGE.read_text().partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    return "\n".join(COMMAND.findall(section.split("```console\n")[1 + block].partition("```")[0]))


@dataclass
class Page:
    """Runs sections of the page in a directory, as an administrator with volcanoio, kubectl and Helm does."""

    world: World
    directory: Path

    def run(self, title: str, block: int = 0, **placeholders: str) -> str:
        """Run the commands of a section; returns what they print."""
        registry, _, image = self.world.image.rpartition("/")
        text = commands(title, block)
        for name, value in {"REGISTRY": registry, "0.1.0": image.partition(":")[2], **placeholders}.items():
            text = text.replace(name, value)
        return self.shell(text)

    def shell(self, text: str) -> str:
        """Run a script that ends at its first error; returns what it prints."""
        environment = self.world.images[self.world.image].environment / "bin"
        path = f"{environment}:{program(HELM).parent}:{os.environ['PATH']}"
        ran = subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", text],
            cwd=self.directory,
            env={**os.environ, "PATH": path, "KUBECONFIG": str(self.world.plane.kubeconfig)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, f"{text}\n{ran.stdout[-1000:]}{ran.stderr[-3000:]}"
        return ran.stdout


@dataclass
class Way:
    """How Volcano was installed, and the sections of the page for that."""

    install: Callable[[Page], object]
    switch: str
    back: str


def by_helm(page: Page, *, server_side: bool = True) -> None:
    write_chart(page.directory / "volcano")
    flags = f"--values volcano/users-values.yaml --server-side={str(server_side).lower()}"
    page.shell(f"helm install volcano ./volcano -n {NAMESPACE} {flags}")
    for kind, name in (("mutating", "jobs-mutate"), ("validating", "jobs-validate")):  # as Volcano's admission does
        what = f"{kind}webhookconfigurations volcano-admission-service-{name}"
        bundle = f"base64 -w0 {page.world.plane.authority}"
        patch = '[{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": "\'$CA\'"}]'
        page.shell(f"CA=$({bundle}); kubectl patch {what} --type json --field-manager vc-webhook-manager -p '{patch}'")


def by_kubectl(page: Page) -> None:
    write_file(page.directory / "volcano.yaml")
    page.shell("kubectl apply --server-side --force-conflicts -f volcano.yaml")


WITH_HELM = "Switch, with Volcano installed by Helm", "Go back, with Helm"
WAYS = {
    "helm": Way(by_helm, *WITH_HELM),
    "helm 3": Way(partial(by_helm, server_side=False), *WITH_HELM),
    "kubectl": Way(by_kubectl, "Switch, with Volcano installed from YAML", "Go back, from YAML"),
}
"""A release of Helm 3 differs from one of Helm 4 in that it was not applied by the server."""


@pytest.fixture(scope="module")
def second_kubelet(installed: World) -> None:
    """Run the pods of the namespace BESIDE."""
    directory = installed.directory / "pods-beside"
    directory.mkdir()
    machine = Machine(installed.api, installed.network, installed.tokens, installed.images, directory)
    installed.background.begin(Kubelet(machine, BESIDE).run())


@pytest.fixture
def page(installed: World, second_kubelet: None, tmp_path: Path) -> Iterator[Page]:
    """A cluster without volcanoio and without definitions; afterwards what other scenarios need is back."""
    try:
        program(HELM)
    except NotBuiltError as error:
        pytest.skip(f"HELM WAS NOT TESTED: {error}")
    (tmp_path / "config").symlink_to(ROOT / "config")
    made = Page(installed, tmp_path)
    begin = installed.audit.size()
    installed.cluster.close()  # idle connections that the server may have closed meanwhile
    made.shell("volcanoio uninstall --purge-crds --yes")
    installed.kubectl("label", "namespace", NAMESPACE, "pod-security.kubernetes.io/enforce-")
    yield made
    made.shell(
        f"""
        helm uninstall volcanoio -n {BESIDE} --ignore-not-found
        helm uninstall volcano -n {NAMESPACE} --ignore-not-found
        volcanoio uninstall --purge-crds --yes
        kubectl delete deployment,service,configmap,secret,lease --all -n {NAMESPACE}
        kubectl get mutatingwebhookconfigurations,validatingwebhookconfigurations -o name |
            {{ grep volcano-admission-service || true; }} | xargs -r kubectl delete
        """
    )
    installed.install()
    # A rollback takes rights away from processes that are still ending.
    installed.audit.removals.append((begin, installed.audit.size()))


def stored(world: World, namespace: str) -> dict[str, Obj]:
    """Return all objects of Volcano's kinds, PodGroups and Commands aside, by kind and name."""
    listed = json.loads(world.kubectl("get", ",".join(KINDS), "-n", namespace, "-o", "json"))["items"]
    return {f"{one['kind']} {one['metadata']['name']}": one for one in listed}


def contains(after: Any, before: Any) -> bool:
    """Whether nothing of a value was lost or changed; defaults may have been added."""
    if isinstance(before, dict):
        return isinstance(after, dict) and all(
            name in after and contains(after[name], value) for name, value in before.items()
        )
    if isinstance(before, list):
        return len(after) == len(before) and all(map(contains, after, before))
    return bool(after == before)


def lost(world: World, namespace: str, before: dict[str, Obj]) -> list[str]:
    """Return the objects that are gone, were made again, or whose author's fields have changed."""
    after = stored(world, namespace)
    names = ("uid", "labels", "annotations", "creationTimestamp")
    return [
        key
        for key, one in before.items()
        if not (
            key in after
            and contains(after[key].get("spec"), one.get("spec"))
            and contains(
                after[key]["metadata"], {name: one["metadata"][name] for name in names if name in one["metadata"]}
            )
        )
    ]


def running(world: World, namespace: str, prefix: str) -> dict[str, str]:
    """Return name and uid of the running pods whose names begin with a prefix."""
    return {
        name: pod["metadata"]["uid"]
        for name, pod in world.pods_of(namespace).items()
        if name.startswith(prefix)
        and pod["status"].get("phase") == "Running"
        and "deletionTimestamp" not in pod["metadata"]
    }


def run_beside(page: Page, state: State) -> None:
    """Run the scheduler beside; it places the pods of its name and leaves all others, and is removed again."""
    world, namespace = page.world, state.namespace
    page.run(TRIAL)
    version = state.group("of-volcano", phase="Inqueue")["metadata"]["resourceVersion"]
    state.pods("of-volcano", "volcano")
    state.group("trial", phase="Inqueue")
    state.pods("trial", "volcanoio")
    world.until(lambda: len(running(world, namespace, "trial-")) == 2, "the pods of the trial run")
    time.sleep(QUIET_SECONDS)
    assert world.get("podgroup", "of-volcano", namespace)["metadata"]["resourceVersion"] == version
    waiting = [pod for name, pod in world.pods_of(namespace).items() if name.startswith("of-volcano-")]
    assert len(waiting) == 2
    assert not any(pod["spec"].get("nodeName") or pod["status"].get("conditions") for pod in waiting)
    before = running(world, namespace, "trial-")
    page.run(TRIAL, block=2)
    assert running(world, namespace, "trial-") == before


def check_switched(scenario: Scenario, state: State) -> None:
    """Check that volcanoio does what Volcano left (pods that wait, a Job without pods, a Command), and runs alone."""
    world, namespace = scenario.world, state.namespace
    for name in COMPONENTS:
        pod = world.get("deployment", name, NAMESPACE)["spec"]["template"]["spec"]
        assert [one["image"] for one in pod["containers"]] == [world.image]
        assert "klog-sock" not in [volume["name"] for volume in pod["volumes"]]
    wanted = {"kept": "Running", "aborted": "Aborted", "waiting": "Completed"}
    world.until(lambda: scenario.phases() == wanted, lambda: f"{wanted}; they are {scenario.phases()}")
    world.until(lambda: len(running(world, namespace, "of-volcano-")) == 2, "pods that waited for Volcano run")
    world.until(lambda: not world.get("commands", namespace=namespace)["items"], "the Command is carried out")
    said = world.kubectl(
        "create",
        "-f",
        "-",
        "-n",
        namespace,
        stdin=scenario.json(scenario.job("bad", replicas=1, minAvailable=5)),
        check=False,
    )
    assert "validatejob.volcano.sh" in said


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_objects_and_running_pods_outlive_the_switch_and_the_way_back(scenario: Scenario, page: Page, way: Way) -> None:
    world, namespace = scenario.world, scenario.namespace
    way.install(page)
    page.shell("for _ in $(seq 20); do kubectl wait --for=condition=Established crd --all && break; sleep 1; done")
    state = State(world.cluster, namespace)
    state.create()
    before = stored(world, namespace)
    world.until(lambda: len(running(world, namespace, "kept-")) == 2, "the pods of Volcano's Job run")
    pods = running(world, namespace, "kept-")

    for line in page.shell("volcanoio install --only-crds").splitlines():
        name = line.split()[1]
        assert ("kept as it is" if name in KEPT else "replaced") in line
    assert stored(world, namespace) == before

    run_beside(page, state)
    assert lost(world, namespace, before) == []
    assert running(world, namespace, "kept-") == pods

    state.command("aborted", "AbortJob")
    page.run(way.switch)
    check_switched(scenario, state)
    assert lost(world, namespace, before) == []
    assert running(world, namespace, "kept-") == pods

    page.run(way.back, REVISION="1")
    images = {
        one["metadata"]["name"]: one["spec"]["template"]["spec"]["containers"][0]["image"]
        for one in world.get("deployments", namespace=NAMESPACE)["items"]
    }
    assert images.keys() == set(COMPONENTS)
    assert all("volcanosh/" in image for image in images.values())
    # Helm may create service accounts after Deployments; their controller then waits up to twice as long as that took.
    world.until(
        lambda: len(world.get("pods", namespace=NAMESPACE)["items"]) == len(COMPONENTS), "Volcano has its pods", 150
    )
    ours = "mutatingwebhookconfigurations,validatingwebhookconfigurations,clusterroles"
    assert world.kubectl("get", ours, "-o", "name", "-l", "app.kubernetes.io/name=volcanoio") == ""
    assert lost(world, namespace, before) == []
    assert running(world, namespace, "kept-") == pods
    state.running_job("after")  # no webhook is in the way
