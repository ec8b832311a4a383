"""The PodGroup of a job: names, minimums and quota-style resources, as Volcano writes them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.unit.jobs.driver import spec, task
from volcanoio.engine.jobs.pods.manifests import (
    min_resources,
    pod_group_manifest,
    pod_group_name,
    pod_group_patch,
    pod_group_spec,
)
from volcanoio.framework.podusage import format_usage, pod_usage
from volcanoio.model.base import Manifest, ObjectMeta
from volcanoio.model.batch import Job
from volcanoio.model.scheduling import PodGroup


def job(*tasks: Manifest, **fields: Any) -> Job:
    manifest = {"metadata": {"name": "tf", "namespace": "ns", "uid": "u-1"}, "spec": spec(*tasks, **fields)}
    return msgspec.convert(manifest, Job)


def sized(name: str, replicas: int, cpu: str, **fields: Any) -> Manifest:
    container = {"name": "c", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}, "limits": {"cpu": "2"}}}
    return task(name, replicas, pod={"containers": [container], **fields.pop("pod", {})}, **fields)


def test_name_owner_and_copied_metadata() -> None:
    one = msgspec.structs.replace(
        job(), metadata=ObjectMeta(name="tf", namespace="ns", uid="u-1", labels={"a": "b"}, annotations={"c": "d"})
    )
    manifest = pod_group_manifest(one, pod_group_spec(one, {}))
    meta = manifest["metadata"]
    assert pod_group_name(one) == meta["name"] == "tf-u-1"
    assert (meta["labels"], meta["annotations"]["c"]) == ({"a": "b"}, "d")
    assert meta["ownerReferences"][0]["uid"] == "u-1"
    assert "status" not in manifest


def test_usage_holds_quota_keys() -> None:
    usage = format_usage(pod_usage(sized("t", 1, "1500m")["template"]))
    assert usage == {
        "count/pods": "1",
        "cpu": "1500m",
        "limits.cpu": "2",
        "memory": "1Gi",
        "pods": "1",
        "requests.cpu": "1500m",
        "requests.memory": "1Gi",
    }


def test_usage_of_a_best_effort_pod_is_the_pod_itself() -> None:
    assert format_usage(pod_usage(task()["template"])) == {"count/pods": "1", "pods": "1"}


@pytest.mark.parametrize(
    ("init", "cpu"),
    [
        ([], "1"),
        ([{"name": "i", "resources": {"requests": {"cpu": "3"}}}], "3"),
        ([{"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "3"}}}], "4"),
        (
            [
                {"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "3"}}},
                {"name": "i", "resources": {"requests": {"cpu": "2"}}},
            ],
            "5",
        ),
    ],
)
def test_usage_of_init_containers_and_sidecars(init: list[Manifest], cpu: str) -> None:
    template = sized("t", 1, "1", pod={"initContainers": init})["template"]
    assert format_usage(pod_usage(template))["cpu"] == cpu


def test_an_extended_resource_is_listed_with_and_without_prefix() -> None:
    container = {"name": "c", "resources": {"limits": {"nvidia.com/gpu": 2}}}
    usage = format_usage(pod_usage(task(pod={"containers": [container]})["template"]))
    assert (usage["nvidia.com/gpu"], usage["requests.nvidia.com/gpu"]) == ("2", "2")


@pytest.mark.parametrize(
    ("minimum", "cpu"),
    [
        (1, "4"),  # below the tasks' own minimums: the highest priority class first
        (2, "5"),
        (4, "7"),
        (6, "9"),  # above them: the rest is filled up in order
    ],
)
def test_min_resources_prefers_high_priority_tasks(minimum: int, cpu: str) -> None:
    driver = sized("driver", 1, "4", minAvailable=1, pod={"priorityClassName": "high"})
    executor = sized("executor", 5, "1", minAvailable=3)
    resources = min_resources(job(executor, driver, minAvailable=minimum), {"high": 1000})
    assert (resources["cpu"], resources["pods"]) == (cpu, str(minimum))


def test_min_task_member_and_partitions() -> None:
    parts = {"totalPartitions": 3, "partitionSize": 2, "minPartitions": 2}
    wanted = pod_group_spec(job(task("a", 4, minAvailable=2), task("b", 3), task("c", 6, partitionPolicy=parts)), {})
    assert wanted.min_task_member == {"a": 2, "b": 3, "c": 4}
    policy = wanted.sub_group_policy[0]
    assert (policy.name, policy.sub_group_size, policy.min_sub_groups) == ("c", 2, 2)
    assert policy.match_label_keys == ("volcano.sh/partition-id",)


def test_changes_follow_the_job_but_never_drop_a_task_nor_move_the_queue() -> None:
    old = PodGroup(spec=pod_group_spec(job(task("a", 2), task("gone", 1)), {}))
    wanted = pod_group_spec(job(task("a", 3), queue="other", priorityClassName="high"), {})
    patch = pod_group_patch(old, wanted)["spec"]
    assert patch["minTaskMember"] == {"a": 3}
    assert patch["priorityClassName"] == "high"
    assert "queue" not in patch
    assert "minMember" not in patch
    assert pod_group_patch(PodGroup(spec=wanted), wanted) == {}
