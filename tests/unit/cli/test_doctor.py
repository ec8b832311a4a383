"""What `doctor` finds in objects: definitions, leases, Deployments, certificates, pods and queues."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tests.unit.kube.scripted import Call, ScriptedTransport, answer, refusal
from volcanoio import __version__
from volcanoio.cli.connection import Cluster
from volcanoio.cli.doctor import findings
from volcanoio.cli.doctor.checks import Examination
from volcanoio.cli.doctor.findings import Finding, Severity
from volcanoio.compose.definitions import crd_manifests
from volcanoio.kube.client import Client
from volcanoio.kube.errors import ApiError, Forbidden
from volcanoio.kube.transport import Response
from volcanoio.model.core import Pod, SchedulingGroup
from volcanoio.model.scheduling import PodGroup, Queue
from volcanoio.model.workloads import QUEUE_PHASE, NativePodGroup, place_message

NOW = datetime(2026, 5, 1, 12, 0, 0, tzinfo=UTC)


def _texts(found: list[Finding]) -> list[str]:
    return [f"{each.severity}: {each.text}" for each in found]


def _served() -> dict[str, Any]:
    return {
        each["metadata"]["name"]: {**each, "status": {"conditions": [{"type": "Established", "status": "True"}]}}
        for each in crd_manifests()
    }


def test_our_own_definitions_are_all_served() -> None:
    found = findings.definitions(_served().values(), crd_manifests())
    assert _texts(found) == ["ok: all 11 CustomResourceDefinitions are served"]


def test_missing_unserved_and_older_definitions_are_found() -> None:
    served = _served()
    del served["jobs.batch.volcano.sh"], served["nodeshards.shard.volcano.sh"]
    served["queues.scheduling.volcano.sh"]["spec"]["versions"][0]["name"] = "v1alpha1"
    served["commands.bus.volcano.sh"]["status"]["conditions"] = [
        {"type": "Established", "status": "False", "message": "the names conflict"}
    ]
    properties = served["podgroups.scheduling.volcano.sh"]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    del properties["properties"]["spec"]["properties"]["subGroupPolicy"]
    found = findings.definitions(served.values(), crd_manifests())
    assert [each for each in found if each.severity is Severity.OK] == []
    texts = _texts(found)
    assert "error: jobs.batch.volcano.sh is missing" in texts
    assert "warning: nodeshards.shard.volcano.sh is missing" in texts
    assert "error: commands.bus.volcano.sh is not served: the names conflict" in texts
    assert "error: queues.scheduling.volcano.sh does not serve version v1beta1" in texts
    (older,) = [each for each in found if each.text.startswith("podgroups.")]
    assert "fields are dropped when stored: v1beta1.spec.subGroupPolicy" in older.text
    assert older.advice == "apply them: volcanoio install --only-crds"


def _lease(name: str, holder: str, age: float) -> dict[str, Any]:
    renewed = (NOW - timedelta(seconds=age)).isoformat()
    return {
        "metadata": {"name": name},
        "spec": {"holderIdentity": holder, "renewTime": renewed, "leaseDurationSeconds": 15},
    }


def test_leases_without_a_fresh_holder_are_found() -> None:
    leases = [
        _lease("volcano", "a", 3),
        _lease("vc-controller-manager", "b", 90),
        {"metadata": {"name": "w"}, "spec": {}},
    ]
    assert _texts(findings.leases(leases, "volcano-system", NOW)) == [
        "error: lease vc-controller-manager was last renewed 90 s ago by b; it lasts 15 s",
        "ok: lease volcano is held by a, renewed 3 s ago",
        "error: lease w has no holder: no process leads",
    ]


def _deployment(called: str, available: int, image: str = "i", **labels: str) -> dict[str, Any]:
    return {
        "metadata": {"name": called, "labels": {f"app.kubernetes.io/{key}": value for key, value in labels.items()}},
        "spec": {"replicas": 2, "template": {"spec": {"containers": [{"image": image}]}}},
        "status": {"availableReplicas": available},
    }


def test_deployments_are_compared_with_this_client() -> None:
    deployments = [
        _deployment("volcano-scheduler", 2, name="volcanoio", version=__version__),
        _deployment("volcano-controllers", 1, name="volcanoio", version="0.0.1"),
        _deployment("volcano-admission", 0, "docker.io/volcanosh/vc-webhook-manager:v1.13.0"),
        _deployment("ingress", 0, "nginx"),
    ]
    assert _texts(findings.components(deployments, "volcano-system")) == [
        f"ok: volcano-scheduler {__version__}: 2 replicas available",
        "warning: volcano-controllers: 1 of 2 replicas available",
        f"warning: volcano-controllers has version 0.0.1, this client {__version__}",
        "error: volcano-admission: 0 of 2 replicas available",
        "ok: volcano-admission is Volcano's own: docker.io/volcanosh/vc-webhook-manager:v1.13.0",
    ]


def test_certificates_that_end_soon_or_have_ended_are_found() -> None:
    in_a_year, soon, ended = (NOW + timedelta(days=days, hours=1) for days in (365, 10, -3))
    assert _texts(findings.certificates({"a": in_a_year}, NOW)) == ["ok: valid for 365 more days"]
    assert _texts(findings.certificates({"a": in_a_year, "b": soon, "c": ended}, NOW)) == [
        "warning: the certificate of b expires in 10 days",
        "error: the certificate of c expired 3 days ago",
    ]


def _pod(name: str, scheduler: str, group: str = "", node: str = "", phase: str = "Pending") -> Pod:
    annotations = {"scheduling.k8s.io/group-name": group} if group else {}
    return msgspec.convert(
        {
            "metadata": {"name": name, "namespace": "ns", "annotations": annotations},
            "spec": {"schedulerName": scheduler, "nodeName": node},
            "status": {"phase": phase},
        },
        Pod,
    )


def _group(name: str, queue: str = "default", phase: str = "Pending") -> PodGroup:
    return msgspec.convert(
        {"metadata": {"name": name, "namespace": "ns"}, "spec": {"queue": queue}, "status": {"phase": phase}}, PodGroup
    )


def test_pods_that_nothing_will_place_are_found() -> None:
    pods = [
        _pod("a", "volcanoo"),
        _pod("b", "volcanoo"),
        _pod("c", "volcano", "lost"),
        _pod("d", "default-scheduler", "gang"),
        _pod("waits", "volcano", "gang"),
        _pod("ended", "volcanoo", phase="Succeeded"),
        _pod("other", "kueue"),
        _pod("placed", "kueue", node="n1"),
    ]
    found = findings.pods(pods, [_group("gang")], ["volcano"])
    assert _texts(found) == [
        'error: pods ns/a, ns/b: schedulerName "volcanoo": no scheduler here has this name',
        'error: pod ns/c: annotation scheduling.k8s.io/group-name names PodGroup "lost", which does not exist',
        "warning: pod ns/d: scheduling.k8s.io/group-name is set, but default-scheduler places pods one by one",
    ]
    assert found[0].advice == (
        "use one of default-scheduler, kueue, volcano, or start that one; `--scheduler-name volcanoo` if it runs"
    )
    assert _texts(findings.pods([_pod("waits", "volcano", "gang")], [_group("gang")], ["volcano"])) == [
        "ok: schedulers and PodGroups of 1 waiting pod exist"
    ]


def _native(name: str, queue: str = "", phase: str = "Pending") -> NativePodGroup:
    counted = {"type": QUEUE_PHASE, "status": "True", "reason": phase, "message": place_message(queue, "volcano")}
    conditions = [counted] if queue else []
    return msgspec.convert(
        {"metadata": {"name": name, "namespace": "ns"}, "status": {"conditions": conditions}}, NativePodGroup
    )


def test_native_groups_are_looked_for_beside_those_of_volcano() -> None:
    def member(name: str, group: str, scheduler: str = "volcano") -> Pod:
        made = _pod(name, scheduler)
        spec = replace(made.spec, scheduling_group=SchedulingGroup(pod_group_name=group))
        return replace(made, spec=spec)

    groups = [_group("both"), findings.named_group(_native("both")), findings.named_group(_native("own"))]
    pods = [member("a", "both"), member("b", "own"), member("c", "lost"), member("d", "other", "default-scheduler")]
    assert _texts(findings.pods(pods, groups, ["volcano"])) == [
        'error: pod ns/c: spec.schedulingGroup names PodGroup "lost", which does not exist'
    ]
    waiting = [findings.named_group(each) for each in (_native("w", "ghost"), _native("r", "ghost", "Running"))]
    assert _texts(findings.queues([], [*waiting, findings.named_group(_native("theirs"))])) == [
        'error: queue "ghost" does not exist; PodGroup waiting in it: ns/podgroup.scheduling.k8s.io/w'
    ]


def test_queues_that_waiting_groups_cannot_use_are_found() -> None:
    closed = msgspec.convert({"metadata": {"name": "ml"}, "status": {"state": "Closed"}}, Queue)
    groups = [_group("a", "ml"), _group("b", "ml"), _group("c", "ghost"), _group("runs", "ml", "Running")]
    assert [(each.text, each.advice) for each in findings.queues([closed], groups)] == [
        (
            'queue "ghost" does not exist; PodGroup waiting in it: ns/c',
            "create it: volcanoio queue create ghost; or submit the jobs to another queue",
        ),
        ("queue ml is Closed; PodGroups waiting in it: ns/a, ns/b", "open it: volcanoio queue open ml"),
    ]


def _answers(webhooks: list[dict[str, Any]], rights: int) -> Examination:
    """Return the examination of a cluster with these webhooks, which answers questions about rights with that code."""

    async def respond(call: Call) -> Response:
        if call.path.endswith("/mutatingwebhookconfigurations"):
            return answer({"items": [{"metadata": {"name": "admission"}, "webhooks": webhooks}]})
        if call.path.endswith("/selfsubjectaccessreviews"):
            return refusal(rights, "Forbidden" if rights == 403 else "InternalError", "not now")
        if call.path == "/api/v1/namespaces/batch/configmaps/volcano-scheduler-configmap":
            return answer({"metadata": {}, "data": {"volcano-scheduler.conf": "actions: alocate"}})
        return answer({"items": []}) if "webhook" in call.path else refusal(404, "NotFound")

    return Examination(Cluster(Client(ScriptedTransport(respond)), "ns"), "batch", ["volcano"])


async def test_a_placeholder_instead_of_a_certificate_is_found() -> None:
    webhooks = [{"name": "mutatejob.volcano.sh", "clientConfig": {"caBundle": "Cg=="}}]
    assert _texts(await _answers(webhooks, 403).certificates()) == [
        "error: the certificate of mutatejob.volcano.sh cannot be read: it is not PEM"
    ]


async def test_the_configuration_is_that_of_the_given_namespace() -> None:
    (found,) = await _answers([], 403).configuration()
    assert found.text.startswith(
        "volcano-scheduler.conf in ConfigMap batch/volcano-scheduler-configmap, line 1: "
        'action "alocate" is unknown; did you mean "allocate"?'
    )


@pytest.mark.parametrize(("code", "error"), [(403, Forbidden), (500, ApiError)])
async def test_rights_that_cannot_be_asked_for_are_one_error(code: int, error: type[ApiError]) -> None:
    with pytest.raises(error, match="not now"):
        await _answers([], code).rights()
