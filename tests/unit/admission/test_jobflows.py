"""What is refused of a JobFlow."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.admission.objects import create, update
from volcanoio.model import kinds
from volcanoio.model.base import Manifest


def part(name: str, *targets: str, **more: Any) -> Manifest:
    probe = more.pop("probe", None)
    depends: Manifest = {"targets": list(targets), **({"probe": probe} if probe else {})}
    return {"name": name, **({"dependsOn": depends} if targets or probe else {}), **more}


def flow(*parts: Manifest) -> Manifest:
    return {"metadata": {"name": "f", "namespace": "ns"}, "spec": {"flows": list(parts)}}


DIAMOND = (part("a"), part("b", "a"), part("c", "a"), part("d", "b", "c"))


@pytest.mark.parametrize(
    ("parts", "reported"),
    [
        ((part("a", "x"),), "spec.flows[0].dependsOn.targets: jobflow Flow is not DAG: vertex is not defined: x"),
        ((part("a", "a"),), "spec.flows: jobflow Flow is not DAG: a → a"),
        ((part("a", "c"), part("b", "a"), part("c", "b")), "spec.flows: jobflow Flow is not DAG: a → c → b → a"),
        ((part("a"), part("a")), 'spec.flows: flow "a" is named 2 times'),
        ((part("a b"),), 'spec.flows[0].name: "a b" cannot be a JobTemplate: name part must consist of'),
        (
            (part("a"), part("b", "a", probe={"tcpSocketList": [{"port": 0}]})),
            "spec.flows[1].dependsOn.probe.tcpSocketList[0].port: 0 is not a port",
        ),
        (
            (part("a"), part("b", "a", probe={"httpGetList": [{"port": 70000}]})),
            "spec.flows[1].dependsOn.probe.httpGetList[0].port: 70000 is not a port",
        ),
        (
            (part("a"), part("b", "a", probe={"taskStatusList": [{"phase": "Runing"}]})),
            'spec.flows[1].dependsOn.probe.taskStatusList[0].phase: "Runing" is not a phase of a pod; did you mean',
        ),
        (
            (part("a", probe={"tcpSocketList": [{"port": 1}]}),),
            "spec.flows[0].dependsOn.probe: a probe is about targets, and there are none",
        ),
        (
            (part("a", patch={"jobSpec": {"tasks": [{"replicas": "2"}]}}),),
            "spec.flows[0].patch.jobSpec.tasks[0].replicas: Expected `int`",
        ),
    ],
)
def test_refused_on_create_and_update(parts: tuple[Manifest, ...], reported: str) -> None:
    for review in (create(kinds.JOB_FLOW, flow(*parts)), update(kinds.JOB_FLOW, flow(*DIAMOND), flow(*parts))):
        assert any(message.startswith(reported) for message in review.messages), review.messages


def test_a_diamond_is_accepted() -> None:
    assert create(kinds.JOB_FLOW, flow(*DIAMOND)).messages == ()


def test_an_empty_flow_is_reported() -> None:
    (warning,) = create(kinds.JOB_FLOW, flow()).warnings
    assert warning.startswith("spec.flows: there are none, so nothing is run")
