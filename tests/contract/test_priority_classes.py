"""Priority classes: what a pod gets from one, which are the system's, and which one is the default."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contract.support import Cluster, Namespace, Obj, pod, unique

CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


def priority_class(value: int, **fields: object) -> Obj:
    return {"metadata": {"name": unique("class")}, "value": value, **fields}


@pytest.fixture
def made(cluster: Cluster) -> Iterator[list[str]]:
    """The names of classes that are removed at the end."""
    names: list[str] = []
    yield names
    for name in names:
        cluster.delete(f"{CLASSES}/{name}")


def create(cluster: Cluster, made: list[str], value: int, **fields: object) -> str:
    body = priority_class(value, **fields)
    made.append(body["metadata"]["name"])
    cluster.create(CLASSES, body).ok()
    return made[-1]


def refused(namespace: Namespace, body: Obj) -> str:
    return str(namespace.cluster.create(namespace.path("pods"), body).refused(403, "Forbidden")["message"])


def test_a_pod_without_a_class(namespace: Namespace) -> None:
    spec = namespace.pod("p")["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (0, "PreemptLowerPriority")
    assert "priorityClassName" not in spec


def test_a_pod_gets_value_and_policy(namespace: Namespace, made: list[str]) -> None:
    name = create(namespace.cluster, made, 7, preemptionPolicy="Never")
    for _ in range(100):  # the real server learns of it a moment later
        if namespace.cluster.create(namespace.path("pods"), pod("p", priorityClassName=name)).code == 201:
            break
    spec = namespace.cluster.get(namespace.path("pods", "p")).ok()["spec"]
    assert (spec["priority"], spec["preemptionPolicy"], spec["priorityClassName"]) == (7, "Never", name)


def test_an_unknown_class(namespace: Namespace) -> None:
    text = 'pods "p" is forbidden: no PriorityClass with name absent was found'
    assert refused(namespace, pod("p", priorityClassName="absent")) == text


def test_values_are_not_the_pods_to_state(namespace: Namespace) -> None:
    text = "must not be provided in pod spec; priority admission controller computed"
    suffix = "from the given PriorityClass name"
    number = refused(namespace, pod("p", priority=5))
    assert number == f'pods "p" is forbidden: the integer value of priority (5) {text} 0 {suffix}'
    policy = refused(namespace, pod("p", preemptionPolicy="Never"))
    stated = f"the string value of PreemptionPolicy (Never) {text} PreemptLowerPriority {suffix}"
    assert policy == f'pods "p" is forbidden: {stated}'
    namespace.pod("same", priority=0, preemptionPolicy="PreemptLowerPriority")


@pytest.mark.parametrize(("name", "value"), [
    ("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000),
])  # fmt: skip
def test_the_classes_of_the_system(namespace: Namespace, name: str, value: int) -> None:
    cluster = namespace.cluster
    assert cluster.get(f"{CLASSES}/{name}").ok()["value"] == value
    assert namespace.pod("p", priorityClassName=name)["spec"]["priority"] == value
    status = cluster.delete(f"{CLASSES}/{name}", dryRun="All").refused(403, "Forbidden")
    why = "this is a system priority class and cannot be deleted"
    assert status["message"] == f'priorityclasses.scheduling.k8s.io "{name}" is forbidden: {why}'


def test_names_and_values_of_the_system_are_reserved(cluster: Cluster) -> None:
    for body, field in (
        ({"metadata": {"name": "system-mine"}, "value": 1}, "metadata.name"),
        (priority_class(1_000_000_001), "value"),
    ):
        [cause] = cluster.create(CLASSES, body, dryRun="All").refused(422, "Invalid")["details"]["causes"]
        assert cause["field"] == field
    cluster.create(CLASSES, priority_class(1_000_000_000), dryRun="All").ok()
    cluster.create(CLASSES, priority_class(-5), dryRun="All").ok()


def test_the_value_of_a_class_is_immutable(cluster: Cluster, made: list[str]) -> None:
    path = f"{CLASSES}/{create(cluster, made, 1)}"
    for change, field in (({"value": 2}, "value"), ({"preemptionPolicy": "Never"}, "preemptionPolicy")):
        [cause] = cluster.patch(path, change).refused(422, "Invalid")["details"]["causes"]
        assert cause["field"] == field
    cluster.patch(path, {"description": "may change"}).ok()


def test_one_default(namespace: Namespace, made: list[str]) -> None:
    cluster = namespace.cluster
    name = create(cluster, made, 3, globalDefault=True)
    text = f"PriorityClass {name} is already marked as default. Only one default can exist"
    for _ in range(100):  # the real server learns of it a moment later
        answer = cluster.create(CLASSES, priority_class(4, globalDefault=True), dryRun="All")
        if answer.code == 403:
            assert answer.body["message"].endswith(f"is forbidden: {text}")
            break
    else:
        pytest.fail("a second default is allowed")
    spec = namespace.pod("p")["spec"]
    assert (spec["priority"], spec["priorityClassName"]) == (3, name)
    cluster.patch(f"{CLASSES}/{name}", {"globalDefault": False}).ok()
