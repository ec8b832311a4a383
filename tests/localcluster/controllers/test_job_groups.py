"""Batch Jobs with spec.scheduling: their Workload, their PodGroup, and the pods in it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.localcluster.controllers.worlds import World
from volcanoio.localcluster.controllers.jobs.controller import JobController
from volcanoio.localcluster.controllers.objects import BATCH_JOB
from volcanoio.model.base import Manifest
from volcanoio.model.kinds import NATIVE_POD_GROUP, POD, WORKLOAD

GANG: Manifest = {"schedulingPolicy": {"gang": {}}, "disruptionMode": {"all": {}}}


def job(world: World, scheduling: Manifest | None, *, template: Manifest | None = None, **more: Any) -> None:
    meta = {"namespace": "ns", "name": "sweep", **more.pop("meta", {})}
    pods = {"metadata": {"labels": {"a": "b"}}, "spec": {"restartPolicy": "Never", **(template or {})}}
    spec = {"parallelism": 3, "completions": 3, "completionMode": "Indexed", "template": pods, **more}
    spec["selector"] = {"matchLabels": {"a": "b"}}
    if scheduling is not None:
        spec["scheduling"] = scheduling
    world.put(BATCH_JOB, {"metadata": meta, "spec": spec})


def groups_of_pods(world: World) -> set[str]:
    return {one["spec"].get("schedulingGroup", {}).get("podGroupName", "") for one in world.all(POD)}


def test_a_gang_has_its_group_before_its_pods() -> None:
    world = World(JobController())
    job(world, GANG)
    while not world.all(POD) and world.step():
        assert not world.all(POD) or world.all(NATIVE_POD_GROUP)
    world.run_until_stable()
    (workload,), (group,) = world.all(WORKLOAD), world.all(NATIVE_POD_GROUP)
    name = group["metadata"]["name"]
    template = {"name": "sweep-pgt-0", "schedulingPolicy": {"gang": {"minCount": 3}}, "disruptionMode": {"all": {}}}
    assert workload["spec"] == {
        "controllerRef": {"apiGroup": "batch", "kind": "Job", "name": "sweep"},
        "podGroupTemplates": [template],
    }
    assert group["spec"] == {
        "workloadRef": {"workloadName": workload["metadata"]["name"], "templateName": "sweep-pgt-0"},
        "schedulingPolicy": {"gang": {"minCount": 3}},
        "disruptionMode": {"all": {}},
    }
    assert [(one["kind"], one.get("controller", False)) for one in group["metadata"]["ownerReferences"]] == [
        ("Job", True), ("Workload", False),
    ]  # fmt: skip
    assert len(world.all(POD)) == 3
    assert groups_of_pods(world) == {name}


@pytest.mark.parametrize(
    ("scheduling", "more"),
    [
        (None, {}),
        (GANG, {"template": {"schedulingGroup": {"podGroupName": "mine"}}}),
        (GANG, {"meta": {"ownerReferences": [{"apiVersion": "x/v1", "kind": "JobSet", "name": "s", "uid": "s",
                                              "controller": True}]}}),
    ],
    ids=["no scheduling", "pods name a group", "made by another controller"],
)  # fmt: skip
def test_other_jobs_have_none(scheduling: Manifest | None, more: Manifest) -> None:
    world = World(JobController())
    job(world, scheduling, **more)
    world.run_until_stable()
    assert world.all(WORKLOAD) == world.all(NATIVE_POD_GROUP) == []
    assert len(world.all(POD)) == 3


def test_the_minimum_follows_the_job() -> None:
    world = World(JobController())
    job(world, {"schedulingPolicy": {"gang": {"minCount": 2}}})
    world.run_until_stable()
    world.change(BATCH_JOB, "ns/sweep", {"spec": {"scheduling": {"schedulingPolicy": {"gang": {"minCount": 3}}}}})
    world.run_until_stable()
    policy = {"gang": {"minCount": 3}}
    assert world.all(NATIVE_POD_GROUP)[0]["spec"]["schedulingPolicy"] == policy
    assert world.all(WORKLOAD)[0]["spec"]["podGroupTemplates"][0]["schedulingPolicy"] == policy


def test_a_job_that_has_started_goes_on_without_a_group() -> None:
    world = World(JobController())
    job(world, None)
    world.run_until_stable()
    world.change(BATCH_JOB, "ns/sweep", {"spec": {"scheduling": GANG}})
    world.remove(POD, f"ns/{world.all(POD)[0]['metadata']['name']}")
    world.run_until_stable()
    assert world.all(NATIVE_POD_GROUP) == []
    assert groups_of_pods(world) == {""}
