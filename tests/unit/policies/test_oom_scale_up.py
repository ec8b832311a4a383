"""How much a killed container gets, decision by decision."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from volcanoio_policies.oom_scale_up import OomScaleUp

from volcanoio.framework.arguments import ArgumentError
from volcanoio.framework.decisions import Abstain, Alert, Decision, Override
from volcanoio.framework.lifecycle import LifecycleEvent, PolicyContext
from volcanoio.framework.overrides import TaskOverride
from volcanoio.model import kinds
from volcanoio.model.base import Manifest
from volcanoio.model.batch import Job
from volcanoio.model.core import Node, Pod, ResourceQuota
from volcanoio.runtime.policies.indexes import ObjectIndexes


def pod(containers: dict[str, Manifest], killed: tuple[str, ...], uid: str = "p", phase: str = "Failed") -> Pod:
    ends = [
        {"name": name, "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled" if name in killed else "Error"}}}
        for name in containers
    ]
    manifest = {
        "metadata": {"name": uid, "namespace": "ns", "uid": uid},
        "spec": {"containers": [{"name": name, "resources": has} for name, has in containers.items()]},
        "status": {"phase": phase, "containerStatuses": ends},
    }
    return msgspec.convert(manifest, Pod)


def limits(memory: str, **more: str) -> Manifest:
    return {"requests": {"memory": memory, **more}, "limits": {"memory": memory}}


def ask(
    failed: Pod,
    *,
    arguments: Manifest | None = None,
    overrides: tuple[TaskOverride, ...] = (),
    node: str = "64Gi",
    quotas: tuple[Manifest, ...] = (),
    others: tuple[Pod, ...] = (),
    event: str = "PodFailed",
) -> Decision:
    template = {"spec": msgspec.to_builtins(failed.spec)}
    job = msgspec.convert(
        {
            "metadata": {"name": "j", "namespace": "ns", "uid": "j"},
            "spec": {"tasks": [{"name": "t", "replicas": 1, "template": template}]},
        },
        Job,
    )
    indexes = ObjectIndexes()
    nodes = [{"metadata": {"name": "n"}, "status": {"allocatable": {"memory": node}}}]
    indexes.add("nodes", [msgspec.convert(each, Node) for each in nodes])
    made = [{"metadata": {"name": f"q{n}", "namespace": "ns"}, "spec": {"hard": hard}} for n, hard in enumerate(quotas)]
    indexes.add("resourcequotas", [msgspec.convert(each, ResourceQuota) for each in made])
    indexes.add("pods", [failed, *others])
    context = PolicyContext(
        event=LifecycleEvent(name=event, job_uid="j", version=0, task="t", pod="p", pod_uid="p", index=0),
        job=job,
        pods=(failed,),
        now=0.0,
        indexes=indexes.view([kinds.NODE.resource, kinds.RESOURCE_QUOTA.resource, kinds.POD.resource]),
        overrides=overrides,
    )
    return asyncio.run(OomScaleUp(arguments).decide(context))


def given(decision: Decision, container: str = "main") -> tuple[Any, Any]:
    assert isinstance(decision, Override), decision
    resources = decision.resources[container]
    return resources.requests.get("memory"), resources.limits.get("memory")


@pytest.mark.parametrize(
    ("has", "reported", "expected"),
    [
        (limits("1Gi"), {}, ("2Gi", "2Gi")),
        (limits("1Gi"), {"arguments": {"factor": 1.5}}, ("1536Mi", "1536Mi")),
        (limits("1Gi"), {"arguments": {"factor": 1.1}}, ("1127Mi", "1127Mi")),
        ({"requests": {"memory": "1Gi"}, "limits": {"memory": "4Gi"}}, {}, ("2Gi", "8Gi")),
        ({"requests": {"memory": "1Gi"}}, {}, ("2Gi", None)),
        ({"limits": {"memory": "1Gi"}}, {}, ("2Gi", "2Gi")),
        (limits("1Gi"), {"arguments": {"cap": "1200Mi"}}, ("1200Mi", "1200Mi")),
        (limits("40Gi"), {}, ("64Gi", "64Gi")),
        (limits("1Gi"), {"quotas": ({"requests.memory": "1536Mi"},)}, ("1536Mi", "2Gi")),
        (limits("1Gi"), {"quotas": ({"limits.memory": "1536Mi"},)}, ("1536Mi", "1536Mi")),
        (limits("1Gi"), {"quotas": ({"memory": "3Gi"}, {"memory": "1280Mi", "pods": "9"})}, ("1280Mi", "2Gi")),
    ],
)
def test_request_and_limit_are_multiplied_within_bounds(
    has: Manifest, reported: Any, expected: tuple[str, str]
) -> None:
    assert given(ask(pod({"main": has}, ("main",)), **reported)) == expected


def test_only_killed_containers_grow_and_leave_room_for_the_others() -> None:
    decision = ask(pod({"main": limits("6Gi", cpu="2"), "side": limits("1Gi")}, ("main",)), node="8Gi")
    assert isinstance(decision, Override)
    assert list(decision.resources) == ["main"]
    assert given(decision) == ("7Gi", "7Gi")
    assert decision.resources["main"].requests["cpu"] == "2"


def test_quota_used_by_other_pods_is_not_available() -> None:
    running = pod({"x": limits("1Gi")}, (), uid="other", phase="Running")
    failed = pod({"main": limits("1Gi")}, ("main",))
    assert given(ask(failed, quotas=({"requests.memory": "2560Mi"},), others=(running,))) == ("1536Mi", "2Gi")


def test_two_events_of_one_pod_are_one_attempt() -> None:
    failed = pod({"main": limits("1Gi")}, ("main",))
    first = ask(failed)
    assert isinstance(first, Override)
    assert first.attempts == 1
    known = (TaskOverride(task="t", resources=first.resources, attempts=1),)
    again = ask(failed, overrides=known)
    assert isinstance(again, Override)
    assert (again.resources, again.attempts) == (first.resources, 1)
    larger = ask(pod({"main": limits("2Gi")}, ("main",)), overrides=known)
    assert isinstance(larger, Override)
    assert larger.attempts == 2
    assert given(larger) == ("4Gi", "4Gi")


@pytest.mark.parametrize(
    ("reported", "message"),
    [
        ({"arguments": {"cap": "1Gi"}}, "the policy's cap is reached"),
        ({"node": "1Gi"}, "the largest node has no more"),
        ({"quotas": ({"limits.memory": "1Gi"},)}, "the namespace's quota leaves no more"),
    ],
)
def test_the_reason_is_reported_when_memory_cannot_grow(reported: Any, message: str) -> None:
    decision = ask(pod({"main": limits("1Gi")}, ("main",)), **reported)
    assert isinstance(decision, Alert)
    assert message in decision.message


def test_containers_that_were_not_oomkilled_are_ignored() -> None:
    assert isinstance(ask(pod({"main": limits("1Gi")}, ())), Abstain)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"factor": 1}, '"factor" must be more than 1'),
        ({"attempts": 0}, '"attempts" must be 1 or more'),
        ({"action": "RestartPods"}, 'did you mean "RestartPod"?'),
        ({"cap": "lots"}, "\"cap\": 'lots' is not a quantity"),
    ],
)
def test_senseless_arguments_are_refused(arguments: Manifest, message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        OomScaleUp(arguments)
    assert message in str(caught.value)
