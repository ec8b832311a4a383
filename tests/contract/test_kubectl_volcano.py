"""kubectl and Volcano's kinds: definitions applied from config/crds, manifests from config/examples."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

from tests.contract.kubectls import Kubectl, installed
from tests.contract.support import FOREIGN, THROWAWAY, Cluster, Namespace, Obj, established

CONFIG = Path(__file__).parents[2] / "config"
DEFINITIONS = sorted(path.name for path in (CONFIG / "crds").glob("*.yaml"))

pytestmark = [
    pytest.mark.kubectl,
    pytest.mark.skipif(not installed(), reason="no kubectl on this machine; set KUBECTL to the path of one"),
    pytest.mark.skipif(
        FOREIGN in os.environ and THROWAWAY not in os.environ, reason="changes definitions of the whole cluster"
    ),
]


@pytest.fixture(scope="module")
def home(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home of a kubectl that has applied Volcano's definitions."""
    home = tmp_path_factory.mktemp("home")
    kubectl = Kubectl(_binary(), cluster.kubeconfig, home, "default")
    kubectl("apply", "-f", str(CONFIG / "crds"))
    for name in DEFINITIONS:  # kubectl wait fails on a definition that has no conditions yet
        group, _, plural = name.removesuffix(".yaml").partition("_")
        established(cluster, f"{plural}.{group}")
    return home


@pytest.fixture
def kubectl(namespace: Namespace, home: Path) -> Kubectl:
    """A kubectl on a cluster that serves Volcano's kinds."""
    return Kubectl(_binary(), namespace.cluster.kubeconfig, home, namespace.name)


def _binary() -> str:
    names = sorted(installed())
    return installed()["KUBECTL" if "KUBECTL" in names else names[-1]]


def test_definitions_can_be_applied_again(kubectl: Kubectl) -> None:
    lines = kubectl("apply", "-f", str(CONFIG / "crds")).splitlines()
    assert len(lines) == len(DEFINITIONS)
    assert all(line.endswith(" unchanged") for line in lines)


def test_a_job(kubectl: Kubectl) -> None:
    manifest = next(yaml.safe_load_all((CONFIG / "examples" / "01-nginx.yaml").read_text()))
    manifest["metadata"].pop("namespace", None)
    name = manifest["metadata"]["name"]
    assert kubectl("create", "-f", "-", manifest=manifest) == f"job.batch.volcano.sh/{name} created\n"
    header, row = (line.split() for line in kubectl("get", "vcjob").splitlines())
    assert header == ["NAME", "STATUS", "MINAVAILABLE", "RUNNINGS", "AGE"]
    assert row[0] == name
    assert "QUEUE" in kubectl("get", "vcjob", "-o", "wide").splitlines()[0]
    assert "minAvailable" in kubectl("describe", "vcjob", name).replace("Min Available", "minAvailable")
    status = '{"status":{"state":{"phase":"Running"},"running":3,"minAvailable":3}}'
    kubectl("patch", "vcjob", name, "--subresource=status", "--type=merge", "-p", status)
    assert kubectl("get", "vcjob", name, "--no-headers").split()[:4] == [name, "Running", "3", "3"]
    kubectl("wait", "--for=jsonpath={.status.state.phase}=Running", f"vcjob/{name}", "--timeout=60s")
    scaled = kubectl.run("scale", "vcjob", name, "--replicas=1")
    assert scaled.code == 1
    assert f'Error from server (NotFound): jobs.batch.volcano.sh "{name}" not found' in scaled.err.splitlines()
    kubectl("delete", "vcjob", name, "--timeout=60s")


def test_a_misspelt_field_is_named(kubectl: Kubectl) -> None:
    body = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "j"},
        "spec": {"minAvail": 1},
    }
    ran = kubectl.run("create", "-f", "-", manifest=body)
    assert ran.code == 1
    assert 'unknown field "spec.minAvail"' in ran.err


def test_pod_groups_and_queues(kubectl: Kubectl) -> None:
    group = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "pg"},
        "spec": {"minMember": 3, "queue": "default"},
    }
    kubectl("apply", "-f", "-", manifest=group)
    assert kubectl("get", "pg", "--no-headers").split()[0] == "pg"
    queue = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": kubectl.namespace},
        "spec": {"weight": 7, "parent": "root"},
    }
    kubectl("apply", "-f", "-", manifest=queue)
    status = '{"status":{"state":"Closing","running":3}}'
    kubectl("patch", "queue", kubectl.namespace, "--subresource=status", "--type=merge", "-p", status)
    header, row = (line.split() for line in kubectl("get", "queue", kubectl.namespace).splitlines())
    assert header == ["NAME", "STATE", "WEIGHT", "PARENT", "RUNNINGS"]
    assert row == [kubectl.namespace, "Closing", "7", "root", "3"]
    kubectl("delete", "queue", kubectl.namespace, "--timeout=60s")


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        ("vcjob.spec", "minAvailable"),
        ("vcjob.spec.tasks", "dependsOn"),
        ("queue.spec", "capability"),
        ("pg.spec", "minMember"),
        ("vcjob", "Tasks of pods that are scheduled together and run to completion"),
        ("vcjob.spec.queue", "Queue in which the job waits and whose share it uses."),
        ("vcjob.spec.tasks.template.spec.containers.image", "Container image name."),
        ("hypernode.spec.tier", "Distance of the nodes from each other: a higher tier means more distant."),
    ],
)
def test_explain(kubectl: Kubectl, what: str, expected: str) -> None:
    assert expected in kubectl("explain", what)


@pytest.mark.parametrize("kind", ["hypernodes", "numatopologies", "nodeshards", "colocationconfigurations"])
def test_kinds_without_a_controller_can_be_listed_and_deleted(kubectl: Kubectl, kind: str) -> None:
    """Clients that clean up a cluster fail on a kind that is not served."""
    assert kubectl("get", kind, "-o", "name") == ""
    kubectl("delete", kind, "--all")


def hyper_node(name: str, **selector: Obj) -> Obj:
    return {
        "apiVersion": "topology.volcano.sh/v1alpha1",
        "kind": "HyperNode",
        "metadata": {"name": name},
        "spec": {"tier": 1, "tierName": "rack", "members": [{"type": "Node", "selector": selector}]},
    }


def test_a_hypernode_has_one_selector_for_each_member(kubectl: Kubectl) -> None:
    name, exact, regex = f"hn-{kubectl.namespace}", {"name": "node-1"}, {"pattern": "node-.*"}
    for selector, rule in (
        ({}, "Either ExactMatch or RegexMatch or LabelMatch must be specified"),
        (
            {"exactMatch": exact, "regexMatch": regex},
            "Only one of ExactMatch, RegexMatch, or LabelMatch can be specified",
        ),
        ({"regexMatch": regex, "labelMatch": {}}, "Only one of ExactMatch, RegexMatch, or LabelMatch can be specified"),
        ({"exactMatch": exact, "labelMatch": {}}, "Only one of ExactMatch, RegexMatch, or LabelMatch can be specified"),
    ):
        ran = kubectl.run("create", "-f", "-", manifest=hyper_node(name, **selector))
        assert ran.code == 1
        assert rule in ran.err
    kubectl("create", "-f", "-", manifest=hyper_node(name, labelMatch={"matchLabels": {"rack": "a"}}))
    header, row = (line.split() for line in kubectl("get", "hn", name).splitlines())
    assert header == ["NAME", "TIER", "TIERNAME", "NODECOUNT", "AGE"]
    assert row[:3] == [name, "1", "rack"]
    kubectl("delete", "hn", name)
