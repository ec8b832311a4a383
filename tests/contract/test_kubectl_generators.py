"""`kubectl create KIND` without a file: from 1.32 on these send protobuf."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.contract.kubectls import USED, Kubectl
from tests.contract.support import unique

pytestmark = USED

NAMESPACED = {
    "deployment": (("--image=busybox", "--replicas=0"), "{.spec.replicas}", "0"),
    "job": (("--image=busybox", "--", "sleep", "1"), "{.spec.template.spec.containers[0].command[0]}", "sleep"),
    "cronjob": (("--image=busybox", "--schedule=0 0 1 1 *"), "{.spec.schedule}", "0 0 1 1 *"),
    "configmap": (("--from-literal=k=1",), "{.data.k}", "1"),
    "secret generic": (("--from-literal=k=1",), "{.data.k}", "MQ=="),
    "secret docker-registry": (
        ("--docker-username=u", "--docker-password=p"),
        "{.type}",
        "kubernetes.io/dockerconfigjson",
    ),
    "serviceaccount": ((), "{.metadata.name}", ""),
    "quota": (("--hard=pods=5",), "{.spec.hard.pods}", "5"),
    "role": (("--verb=get", "--resource=pods"), "{.rules[0].resources[0]}", "pods"),
    "rolebinding": (("--clusterrole=view", "--user=me"), "{.subjects[0].name}", "me"),
    "poddisruptionbudget": (("--selector=app=a", "--min-available=50%"), "{.spec.minAvailable}", "50%"),
    "ingress": (("--rule=example.com/*=a:80",), "{.spec.rules[0].host}", "example.com"),
    "service clusterip": (("--tcp=80:8080",), "{.spec.ports[0].targetPort}", "8080"),
    "service nodeport": (("--tcp=80",), "{.spec.type}", "NodePort"),
    "service externalname": (("--external-name=example.com",), "{.spec.externalName}", "example.com"),
}
"""What follows the name, and a field of what was created with its value (empty: the name)."""
CLUSTERWIDE = {
    "namespace": ((), "{.metadata.labels.kubernetes\\.io/metadata\\.name}", ""),
    "priorityclass": (("--value=7",), "{.value}", "7"),
    "clusterrole": (("--verb=get", "--resource=nodes"), "{.rules[0].resources[0]}", "nodes"),
    "clusterrolebinding": (("--clusterrole=view", "--group=us"), "{.subjects[0].name}", "us"),
}


def test_generators(any_kubectl: Kubectl) -> None:
    for generator, (arguments, path, shown) in NAMESPACED.items():
        words = generator.split()
        created = any_kubectl("create", *words, words[-1], "-o", f"jsonpath={path}", *arguments)
        assert created == (shown or words[-1]), generator


@pytest.fixture
def name(kubectl: Kubectl, request: pytest.FixtureRequest) -> Iterator[str]:
    """A name in the whole cluster that is free again after the test."""
    name = unique("kubectl")
    yield name
    kubectl("delete", request.getfixturevalue("generator"), name, "--wait=false", "--ignore-not-found")


@pytest.mark.parametrize("generator", CLUSTERWIDE)
def test_generator_of_the_whole_cluster(kubectl: Kubectl, generator: str, name: str) -> None:
    arguments, path, shown = CLUSTERWIDE[generator]
    assert kubectl("create", generator, name, *arguments).endswith(f"/{name} created\n")
    assert kubectl("get", generator, name, "-o", f"jsonpath={path}") == (shown or name)


def test_token(any_kubectl: Kubectl) -> None:
    assert any_kubectl("create", "token", "default").count(".") == 2


def test_generators_of_the_whole_cluster_with_every_version(any_kubectl: Kubectl) -> None:
    for generator, (arguments, path, shown) in CLUSTERWIDE.items():
        name = unique("kubectl")
        created = any_kubectl("create", generator, name, *arguments, "--dry-run=server", "-o", f"jsonpath={path}")
        assert created == (shown or name), generator


def test_job_from_a_cron_job(kubectl: Kubectl) -> None:
    kubectl("create", "cronjob", "often", "--image=busybox", "--schedule=0 0 1 1 *")
    kubectl("create", "job", "once", "--from=cronjob/often")
    owner = json.loads(kubectl("get", "job", "once", "-o", "jsonpath={.metadata.ownerReferences[0]}"))
    assert (owner["kind"], owner["name"]) == ("CronJob", "often")
