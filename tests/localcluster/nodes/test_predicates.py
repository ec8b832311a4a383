"""What a node refuses for other reasons than amounts."""

from __future__ import annotations

from typing import Any

import pytest

from tests.localcluster.nodes.pods import pod
from volcanoio.localcluster.nodes.pods.predicates import Port, failed_predicate, host_ports
from volcanoio.model.core import Taint

LABELS = {"zone": "a", "cores": "8"}
EVIL = Taint(key="evil", value="very", effect="NoExecute")


def needs(*expressions: dict[str, Any]) -> dict[str, Any]:
    required = {"nodeSelectorTerms": [{"matchExpressions": list(expressions)}]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


@pytest.mark.parametrize(
    ("spec", "refused"),
    [
        ({}, ""),
        ({"nodeSelector": {"zone": "a"}}, ""),
        ({"nodeSelector": {"zone": "b"}}, "NodeAffinity"),
        (needs({"key": "zone", "operator": "In", "values": ["a", "b"]}), ""),
        (needs({"key": "zone", "operator": "NotIn", "values": ["a"]}), "NodeAffinity"),
        (needs({"key": "gpu", "operator": "Exists"}), "NodeAffinity"),
        (needs({"key": "gpu", "operator": "DoesNotExist"}), ""),
        (needs({"key": "cores", "operator": "Gt", "values": ["7"]}), ""),
        (needs({"key": "cores", "operator": "Lt", "values": ["8"]}), "NodeAffinity"),
        (needs({"key": "zone", "operator": "Gt", "values": ["7"]}), "NodeAffinity"),
    ],
)
def test_node_affinity(spec: dict[str, Any], refused: str) -> None:
    found = failed_predicate(pod(**spec), "node-0", LABELS, (), frozenset())
    assert (found.reason if found else "") == refused


@pytest.mark.parametrize(
    ("tolerations", "refused"),
    [
        ([], True),
        ([{"operator": "Exists"}], False),
        ([{"key": "evil", "operator": "Exists"}], False),
        ([{"key": "evil", "value": "very"}], False),
        ([{"key": "evil", "value": "little"}], True),
        ([{"key": "evil", "operator": "Exists", "effect": "NoSchedule"}], True),
    ],
)
def test_noexecute_taints(tolerations: list[dict[str, Any]], refused: bool) -> None:
    found = failed_predicate(pod(tolerations=tolerations), "node-0", LABELS, (EVIL,), frozenset())
    assert (found is not None) is refused
    if found is not None:
        assert found.message == "Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate"


def test_taints_of_the_scheduler_are_not_the_kubelets() -> None:
    assert failed_predicate(pod(), "node-0", LABELS, (Taint(key="k", effect="NoSchedule"),), frozenset()) is None


def test_ports_of_the_host_are_had_once() -> None:
    subject = pod(container={"ports": [{"containerPort": 80, "hostPort": 8080, "hostIP": "127.0.0.1"}]})
    assert host_ports(subject) == (Port("127.0.0.1", "TCP", 8080),)
    for taken, reason in (
        (Port("", "TCP", 8080), "NodePorts"),
        (Port("10.0.0.1", "TCP", 8080), ""),
        (Port("", "UDP", 8080), ""),
    ):
        found = failed_predicate(subject, "node-0", LABELS, (), frozenset({taken}))
        assert (found.reason if found else "") == reason
