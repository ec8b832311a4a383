"""Pods: defaults, rules, binding, deletion with grace, and evictions."""

from __future__ import annotations

from typing import Any

import pytest

from tests.localcluster.apiserver.api import PODS, STRATEGIC, Api, SetClock, pod, running
from tests.localcluster.apiserver.bindings import binding
from volcanoio.model.base import Manifest

CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


async def bound(api: Api, **spec: Any) -> Manifest:
    """A pod on a node."""
    await api.made(PODS, pod(**spec))
    assert (await api("POST", f"{PODS}/p/binding", binding())).code == 201
    return await api.got(f"{PODS}/p")


async def test_defaults() -> None:
    async with running() as api:
        sent = pod()
        sent["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1"}}
        sent["spec"]["volumes"] = [{"name": "scratch"}]
        made = await api.made(PODS, sent)
        spec, container = made["spec"], made["spec"]["containers"][0]
        assert spec["restartPolicy"] == "Always"
        assert spec["schedulerName"] == "default-scheduler"
        assert spec["terminationGracePeriodSeconds"] == 30
        assert spec["priority"] == 0
        assert spec["preemptionPolicy"] == "PreemptLowerPriority"
        assert spec["serviceAccountName"] == "default"
        assert spec["volumes"] == [{"name": "scratch", "emptyDir": {}}]
        assert {one["key"] for one in spec["tolerations"]} == {
            "node.kubernetes.io/not-ready",
            "node.kubernetes.io/unreachable",
        }
        assert container["imagePullPolicy"] == "IfNotPresent"
        assert container["resources"]["requests"] == {"cpu": "1", "memory": "1Gi"}
        assert made["status"] == {"phase": "Pending", "qosClass": "Guaranteed"}


async def test_priority_comes_from_the_class() -> None:
    async with running() as api:
        critical = await api.made(PODS, pod("a", priorityClassName="system-node-critical"))
        assert critical["spec"]["priority"] == 2_000_001_000
        missing = await api("POST", PODS, pod("b", priorityClassName="nope"))
        assert missing.code == 403
        assert "no PriorityClass with name nope was found" in missing.message
        usual = {"metadata": {"name": "usual"}, "value": 7, "globalDefault": True, "preemptionPolicy": "Never"}
        await api.made(CLASSES, usual)
        spec = (await api.made(PODS, pod("c")))["spec"]
        assert (spec["priority"], spec["priorityClassName"], spec["preemptionPolicy"]) == (7, "usual", "Never")
        assert (await api("PUT", f"{CLASSES}/usual", {**usual, "value": 8})).reason == "Invalid"


@pytest.mark.parametrize(
    ("change", "field", "text"),
    [
        ({"containers": []}, "spec.containers", "Required value"),
        ({"containers": [{"name": "a"}]}, "spec.containers[0].image", "Required value"),
        (
            {"containers": [{"name": "A", "image": "i"}]},
            "spec.containers[0].name",
            "a lowercase RFC 1123 label",
        ),
        (
            {"containers": [{"name": "a", "image": "i"}, {"name": "a", "image": "i"}]},
            "spec.containers[1].name",
            'Duplicate value: "a"',
        ),
        ({"restartPolicy": "Sometimes"}, "spec.restartPolicy", "Unsupported value"),
        (
            {"containers": [{"name": "a", "image": "i", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]},
            "spec.containers[0].volumeMounts[0].name",
            'Not found: "v"',
        ),
        (
            {"containers": [{"name": "a", "image": "i", "resources": {"requests": {"cpu": "-1"}}}]},
            "spec.containers[0].resources.requests[cpu]",
            "must be greater than or equal to 0",
        ),
        (
            {"containers": [{"name": "a", "image": "i", "resources": {"requests": {"cpu": "1x"}}}]},
            "spec.containers[0].resources.requests[cpu]",
            "quantities must match the regular expression",
        ),
        (
            {
                "containers": [
                    {"name": "a", "image": "i", "resources": {"requests": {"cpu": 2}, "limits": {"cpu": "1"}}}
                ]
            },
            "spec.containers[0].resources.requests",
            "must be less than or equal to cpu limit of 1",
        ),
        ({"nodeName": "n", "schedulingGates": [{"name": "g"}]}, "spec.nodeName", "Forbidden"),
    ],
)
async def test_invalid_pods_are_refused_naming_the_field(change: Manifest, field: str, text: str) -> None:
    async with running() as api:
        answer = await api("POST", PODS, pod(**change))
        assert (answer.code, answer.reason) == (422, "Invalid")
        assert answer.message.startswith('Pod "p" is invalid: ')
        causes = {cause["field"]: cause["message"] for cause in answer.body["details"]["causes"]}
        assert text in causes[field]
        assert (await api("GET", f"{PODS}/p")).code == 404


async def test_a_valid_shape_does_not_excuse_a_bad_environment() -> None:
    """Pods similar to an accepted one are validated by their differences."""
    async with running() as api:
        await api.made(PODS, pod("a"))
        wrong = pod("b")
        wrong["spec"]["containers"][0]["env"] = [{"name": "", "value": "x"}]
        refused = await api("POST", PODS, wrong)
        assert refused.body["details"]["causes"][0]["field"] == "spec.containers[0].env[0].name"
        assert (await api("POST", PODS, pod("c", hostname="Not_A_Label"))).code == 422


async def test_only_some_fields_of_a_pod_may_change() -> None:
    async with running() as api:
        made = await api.made(PODS, pod())
        made["spec"]["containers"][0]["image"] = "busybox:2"
        made["metadata"]["labels"] = {"a": "b"}
        assert (await api("PUT", f"{PODS}/p", made)).code == 200
        refused = await api("PATCH", f"{PODS}/p", {"spec": {"nodeName": "n1"}}, kind=STRATEGIC)
        assert refused.code == 422
        assert "pod updates may not change fields other than" in refused.message


async def test_status_and_spec_are_written_apart() -> None:
    async with running() as api:
        made = await api.made(PODS, pod())
        changed = {**made, "status": {"phase": "Running"}, "spec": {**made["spec"], "nodeName": "n"}}
        after = (await api("PUT", f"{PODS}/p/status", changed)).body
        assert after["status"]["phase"] == "Running"
        assert "nodeName" not in after["spec"]
        ignored = await api("PUT", f"{PODS}/p", {**after, "status": {"phase": "Failed"}})
        assert ignored.body == after


async def test_binding() -> None:
    async with running(clock=SetClock()) as api:
        made = await api.made(PODS, pod())
        other = await api("POST", f"{PODS}/p/binding", binding(uid="other"))
        assert (other.code, other.reason) == (409, "Conflict")
        meta = {"uid": made["metadata"]["uid"], "annotations": {"a": "b"}}
        done = await api("POST", f"{PODS}/p/binding", binding(**meta))
        assert (done.code, done.body["kind"], done.body["status"]) == (201, "Status", "Success")
        after = await api.got(f"{PODS}/p")
        assert after["spec"]["nodeName"] == "n1"
        assert after["metadata"]["annotations"] == {"a": "b"}
        scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None}
        scheduled["lastTransitionTime"] = "2030-01-01T00:00:00Z"
        assert after["status"]["conditions"] == [scheduled]
        twice = await api("POST", f"{PODS}/p/binding", binding("n2"))
        assert twice.message.endswith('pod p is already assigned to node "n1"')
        missing_pod = {"metadata": {"name": "q"}, "target": {"name": "n1"}}
        assert (await api("POST", f"{PODS}/q/binding", missing_pod)).code == 404


async def test_bindings_may_be_posted_beside_pods() -> None:
    async with running() as api:
        await api.made(PODS, pod())
        assert (await api("POST", "/api/v1/namespaces/default/bindings", binding())).code == 201
        assert (await api.got(f"{PODS}/p"))["spec"]["nodeName"] == "n1"


async def test_gated_and_deleted_pods_are_not_bound() -> None:
    async with running() as api:
        made = await api.made(PODS, pod(schedulingGates=[{"name": "g"}]))
        assert made["status"]["conditions"][0]["reason"] == "SchedulingGated"
        assert (await api("POST", f"{PODS}/p/binding", binding())).code == 409
        freed = await api("PATCH", f"{PODS}/p", {"spec": {"schedulingGates": None}}, kind=STRATEGIC)
        assert freed.code == 200
        assert (await api("POST", f"{PODS}/p/binding", binding())).code == 201


async def test_a_bound_pod_is_left_its_grace() -> None:
    clock = SetClock()
    async with running(clock=clock) as api:
        await bound(api)
        clock.advance(seconds=5)
        deleting = (await api("DELETE", f"{PODS}/p")).body["metadata"]
        assert deleting["deletionTimestamp"] == "2030-01-01T00:00:35Z"
        assert deleting["deletionGracePeriodSeconds"] == 30
        longer = (await api("DELETE", f"{PODS}/p", {"gracePeriodSeconds": 60})).body["metadata"]
        assert longer == deleting
        shorter = (await api("DELETE", f"{PODS}/p", gracePeriodSeconds="10")).body["metadata"]
        assert shorter["deletionTimestamp"] == "2030-01-01T00:00:15Z"
        stale = await api("DELETE", f"{PODS}/p", {"gracePeriodSeconds": 0, "preconditions": {"uid": "x"}})
        assert stale.code == 409
        last = await api("DELETE", f"{PODS}/p", {"gracePeriodSeconds": 0})
        assert last.body["kind"] == "Pod"
        assert (await api("GET", f"{PODS}/p")).code == 404


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
async def test_finished_and_unplaced_pods_go_at_once(phase: str) -> None:
    async with running() as api:
        await bound(api)
        await api("PATCH", f"{PODS}/p/status", {"status": {"phase": phase}}, kind=STRATEGIC)
        await api("DELETE", f"{PODS}/p")
        assert (await api("GET", f"{PODS}/p")).code == 404
        await api.made(PODS, pod("unplaced"))
        await api("DELETE", f"{PODS}/unplaced")
        assert (await api("GET", f"{PODS}/unplaced")).code == 404


async def test_an_update_does_not_end_a_pod_within_its_grace() -> None:
    async with running() as api:
        await bound(api)
        await api("DELETE", f"{PODS}/p")
        await api("PATCH", f"{PODS}/p/status", {"status": {"phase": "Running"}}, kind=STRATEGIC)
        assert (await api("GET", f"{PODS}/p")).code == 200


async def test_evictions_respect_the_budget() -> None:
    async with running() as api:
        budget = {"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}}
        await api.made("/apis/policy/v1/namespaces/default/poddisruptionbudgets", budget)
        ready = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
        for name in ("x", "y"):
            one = pod(name, nodeName="n1")
            one["metadata"]["labels"] = {"a": "b"}
            await api.made(PODS, one)
            await api("PATCH", f"{PODS}/{name}/status", ready, kind=STRATEGIC)

        def eviction(name: str) -> Manifest:
            return {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}

        assert (await api("POST", f"{PODS}/x/eviction", eviction("x"))).code == 201
        assert "deletionTimestamp" in (await api.got(f"{PODS}/x"))["metadata"]
        refused = await api("POST", f"{PODS}/y/eviction", eviction("y"))
        assert (refused.code, refused.reason) == (429, "TooManyRequests")
        assert refused.body["details"]["causes"][0]["reason"] == "DisruptionBudget"
