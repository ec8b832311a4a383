"""PodGroups and Workloads of scheduling.k8s.io/v1beta1, and the field of pods that names them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.localcluster.apiserver.api import MERGE, PODS, STRATEGIC, pod, running
from volcanoio.model.base import Manifest

BASE = "/apis/scheduling.k8s.io/v1beta1/namespaces/default"
GROUPS, WORKLOADS = f"{BASE}/podgroups", f"{BASE}/workloads"
GANG: Manifest = {"gang": {"minCount": 2}}
SCHEDULED: Manifest = {
    "type": "PodGroupInitiallyScheduled", "status": "True", "reason": "Scheduled", "message": "",
    "lastTransitionTime": "2030-01-01T00:00:00Z",
}  # fmt: skip


def group(name: str = "g", **spec: Any) -> Manifest:
    return {"metadata": {"name": name}, "spec": {"schedulingPolicy": GANG, **spec}}


def workload(name: str = "w", *templates: Manifest) -> Manifest:
    default = {"name": "worker", "schedulingPolicy": GANG}
    return {"metadata": {"name": name}, "spec": {"podGroupTemplates": list(templates or (default,))}}


async def test_a_group_gets_its_defaults_priority_and_finalizer(tmp_path: Path) -> None:
    async with running(tmp_path) as api:
        high = {"metadata": {"name": "high"}, "value": 7}
        await api.made("/apis/scheduling.k8s.io/v1/priorityclasses", high)
        made = await api.made(GROUPS, {**group(priorityClassName="high"), "status": {"conditions": [SCHEDULED]}})
        assert made["spec"] == {
            "schedulingPolicy": {"gang": {"minCount": 2}},
            "disruptionMode": {"single": {}},
            "priorityClassName": "high",
            "priority": 7,
        }
        assert made["status"] == {}
        assert made["metadata"]["finalizers"] == ["scheduling.k8s.io/podgroup-protection"]
        assert (await api.made(GROUPS, group("other")))["spec"]["priority"] == 0
        for broken, text in (
            (group(priority=5), "priority set in the pod group (5) must match the priority computed (0) based on"),
            (group(priorityClassName="none"), "no PriorityClass with name none was found"),
        ):
            answer = await api("POST", GROUPS, broken)
            assert answer.code == 403
            assert text in answer.message


INVALID: list[tuple[Manifest, str]] = [
    ({"schedulingPolicy": {}}, 'spec.schedulingPolicy: Invalid value: "": must specify one of: `basic`, `gang`'),
    (
        {"schedulingPolicy": {"basic": {}, **GANG}},
        ('spec.schedulingPolicy: Invalid value: "{basic, gang}": must specify exactly one of: `basic`, `gang`'),
    ),
    ({"schedulingPolicy": {"gang": {}}}, "spec.schedulingPolicy.gang.minCount: Required value"),
    (
        {"schedulingPolicy": {"gang": {"minCount": -1}}},
        ("spec.schedulingPolicy.gang.minCount: Invalid value: -1: must be greater than or equal to 1"),
    ),
    (
        {"disruptionMode": {"single": {}, "all": {}}},
        ('spec.disruptionMode: Invalid value: "{single, all}": must specify exactly one of: `single`, `all`'),
    ),
    (
        {"schedulingConstraints": {"topology": [{"key": "a"}, {"key": "b"}]}},
        ("spec.schedulingConstraints.topology: Too many: 2: must have at most 1 item"),
    ),
    (
        {"schedulingConstraints": {"topology": [{"key": ""}]}},
        ("spec.schedulingConstraints.topology[0].key: Required value"),
    ),
    (
        {"resourceClaims": [{"name": "c"}]},
        (
            'spec.resourceClaims[0]: Invalid value: "": must specify one of: '
            "`resourceClaimName`, `resourceClaimTemplateName`"
        ),
    ),
]


async def test_invalid_groups_are_refused(tmp_path: Path) -> None:
    async with running(tmp_path) as api:
        for spec, error in INVALID:
            answer = await api("POST", GROUPS, group(**spec))
            assert (answer.code, answer.reason) == (422, "Invalid")
            assert error in answer.message


async def test_only_the_minimum_of_a_gang_may_change(tmp_path: Path) -> None:
    async with running(tmp_path) as api:
        await api.made(GROUPS, group(schedulingConstraints={"topology": [{"key": "rack"}]}))
        path = f"{GROUPS}/g"
        changed = await api("PATCH", path, {"spec": {"schedulingPolicy": {"gang": {"minCount": 3}}}}, MERGE)
        assert (changed.code, changed.body["spec"]["schedulingPolicy"]["gang"]["minCount"]) == (200, 3)
        for patch, text in (
            ({"schedulingPolicy": {"gang": None, "basic": {}}}, ("schedulingPolicy.gang: Invalid value: null: field "
             "cannot be cleared once set")),
            ({"disruptionMode": {"single": None, "all": {}}}, "spec.disruptionMode: Invalid value"),
            ({"schedulingConstraints": None}, "spec.schedulingConstraints: Invalid value"),
            ({"priority": 3}, "spec.priority: Invalid value: 3: field is immutable"),
        ):  # fmt: skip
            answer = await api("PATCH", path, {"spec": patch}, MERGE)
            assert answer.code == 422
            assert text in answer.message


async def test_conditions_are_written_to_the_status_alone_and_merged_by_type(tmp_path: Path) -> None:
    async with running(tmp_path) as api:
        await api.made(GROUPS, group())
        ignored = await api("PATCH", f"{GROUPS}/g", {"status": {"conditions": [SCHEDULED]}}, MERGE)
        assert ignored.body["status"] == {}
        for type_ in ("PodGroupInitiallyScheduled", "DisruptionTarget"):
            patch = {"status": {"conditions": [{**SCHEDULED, "type": type_}]}}
            assert (await api("PATCH", f"{GROUPS}/g/status", patch, STRATEGIC)).code == 200
        stored = await api.got(f"{GROUPS}/g")
        assert {one["type"] for one in stored["status"]["conditions"]} == {
            "PodGroupInitiallyScheduled", "DisruptionTarget",
        }  # fmt: skip


async def test_a_group_of_a_workload_needs_its_template(tmp_path: Path) -> None:
    async with running(tmp_path) as api:
        ref = {"workloadName": "w", "templateName": "worker"}
        answer = await api("POST", GROUPS, group(workloadRef=ref))
        assert (answer.code, 'PodGroup rejected: Workload "w" not found' in answer.message) == (403, True)
        await api.made(WORKLOADS, workload())
        await api.made(GROUPS, group(workloadRef=ref))
        answer = await api("POST", GROUPS, group("h", workloadRef={**ref, "templateName": "driver"}))
        assert 'PodGroupTemplate "driver" not found in Workload "w"' in answer.message


async def test_templates_of_a_workload_stay(tmp_path: Path) -> None:
    async with running(tmp_path) as api:
        await api.made(WORKLOADS, workload())
        for body, text in (
            (workload("v", {"name": "a", "schedulingPolicy": GANG}, {"name": "a", "schedulingPolicy": GANG}),
             "spec.podGroupTemplates[1]: Duplicate value"),
            ({"metadata": {"name": "v"}, "spec": {"podGroupTemplates": []}},
             "spec.podGroupTemplates: Required value"),
        ):  # fmt: skip
            assert text in (await api("POST", WORKLOADS, body)).message
        bigger: Manifest = {"name": "worker", "schedulingPolicy": {"gang": {"minCount": 5}}}
        for templates, code in (
            ([bigger], 200),
            ([bigger, {**bigger, "name": "b"}], 422),
            ([{**bigger, "priority": 4}], 422),
            ([{**bigger, "name": "b"}], 422),
        ):
            patch = {"spec": {"podGroupTemplates": templates}}
            assert (await api("PATCH", f"{WORKLOADS}/w", patch, MERGE)).code == code


async def test_a_pod_keeps_its_scheduling_group(tmp_path: Path) -> None:
    async with running(tmp_path) as api:
        body = pod("p")
        body["spec"]["schedulingGroup"] = {"podGroupName": "g"}
        assert (await api.made(PODS, body))["spec"]["schedulingGroup"] == {"podGroupName": "g"}
        patch = {"spec": {"schedulingGroup": {"podGroupName": "h"}}}
        assert "pod updates may not change fields other than" in (await api("PATCH", f"{PODS}/p", patch, MERGE)).message
        for name, text in ((None, "must specify one of: `podGroupName`"), ("No", "a lowercase RFC 1123 subdomain")):
            broken = pod("q")
            broken["spec"]["schedulingGroup"] = {"podGroupName": name} if name else {}
            answer = await api("POST", PODS, broken)
            assert (answer.code, text in answer.message) == (422, True)


async def test_a_manager_owns_what_it_applies(tmp_path: Path) -> None:
    async with running(tmp_path) as api:
        body = {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", **group()}
        apply: Any = "application/apply-patch+yaml"
        answer = await api("PATCH", f"{GROUPS}/g", body, apply, fieldManager="me")
        assert answer.code == 201
        owned = answer.body["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]
        assert owned == {"f:schedulingPolicy": {"f:gang": {"f:minCount": {}}}}


async def test_the_scheduling_of_a_batch_job_stays_but_for_its_minimum(tmp_path: Path) -> None:
    jobs = "/apis/batch/v1/namespaces/default/jobs"
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}

    def body(name: str, policy: Manifest) -> Manifest:
        spec = {"parallelism": 2, "template": template, "scheduling": {"schedulingPolicy": policy}}
        return {"metadata": {"name": name}, "spec": spec}

    async with running(tmp_path) as api:
        answer = await api("POST", jobs, body("a", {"basic": {}, "gang": {}}))
        assert "spec.scheduling.schedulingPolicy: Invalid value" in answer.message
        await api.made(jobs, body("a", {"gang": {}}))
        for scheduling, code in (
            ({"schedulingPolicy": {"gang": {"minCount": 1}}}, 200),
            ({"schedulingPolicy": {"gang": None, "basic": {}}}, 422),
            ({"disruptionMode": {"all": {}}}, 422),
            (None, 422),
        ):
            answer = await api("PATCH", f"{jobs}/a", {"spec": {"scheduling": scheduling}}, MERGE)
            assert (answer.code, scheduling) == (code, scheduling)
