"""What the PodGroups hold that are made for pods of others, and which pods have one."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from volcanoio.engine.podgroups.podgroup import (
    desired_content,
    group_keys,
    group_manifest,
    group_name,
    group_patch,
    pod_keys,
)
from volcanoio.model import names
from volcanoio.model.base import ObjectMeta, OwnerReference
from volcanoio.model.batch import NetworkTopology
from volcanoio.model.core import Container, Pod, PodSpec, ResourceRequirements, SchedulingGroup
from volcanoio.model.scheduling import PodGroup
from volcanoio.model.workloads import ReplicaSet, ReplicaSpec

RS = OwnerReference(api_version="apps/v1", kind="ReplicaSet", name="web", uid="rs-uid", controller=True)


def pod(owner: OwnerReference | None = RS, scheduler: str = "volcano", **meta: Any) -> Pod:
    container = Container(
        name="c", resources=ResourceRequirements(requests={"cpu": "500m", "example.com/gpu": "1"}, limits={"cpu": "1"})
    )
    return Pod(
        metadata=ObjectMeta(
            name="web-1", namespace="ns", uid="pod-uid", owner_references=(owner,) if owner else (), **meta
        ),
        spec=PodSpec(scheduler_name=scheduler, containers=(container,), priority_class_name="high"),
    )


def replica_set(annotations: dict[str, str], replicas: int = 9) -> ReplicaSet:
    meta = ObjectMeta(name="web", namespace="ns", uid="rs-uid", annotations=annotations)
    return ReplicaSet(metadata=meta, spec=ReplicaSpec(replicas=replicas))


def test_a_group_bears_the_uid_of_the_controller_or_of_the_pod() -> None:
    assert group_name(pod()) == "podgroup-rs-uid"
    assert group_name(pod(owner=None)) == "podgroup-pod-uid"


@pytest.mark.parametrize(
    ("candidate", "key"),
    [
        (pod(), "ns/podgroup-rs-uid"),
        (pod(annotations={names.GROUP_NAME: ""}), "ns/podgroup-rs-uid"),
        (pod(annotations={names.GROUP_NAME: "podgroup-rs-uid"}), "ns/podgroup-rs-uid"),
        (pod(annotations={names.GROUP_NAME: "podgroup-of-mine"}), ""),
        (pod(annotations={names.GROUP_NAME: "job-uid"}), ""),
        (pod(scheduler="default-scheduler"), ""),
        (pod(scheduler="second"), "ns/podgroup-rs-uid"),
    ],
)
def test_pods_of_our_schedulers_have_a_group_unless_they_are_in_another(candidate: Pod, key: str) -> None:
    assert list(pod_keys(("volcano", "second"))(candidate)) == ([key] if key else [])


def test_pods_of_a_native_group_need_no_other() -> None:
    """Unless an earlier version gave them one, which then stays."""
    native = msgspec.structs.replace(pod().spec, scheduling_group=SchedulingGroup(pod_group_name="train"))
    new = msgspec.structs.replace(pod(), spec=native)
    old = msgspec.structs.replace(pod(annotations={names.GROUP_NAME: "podgroup-rs-uid"}), spec=native)
    keys = pod_keys(("volcano",))
    assert (list(keys(new)), list(keys(old))) == ([], ["ns/podgroup-rs-uid"])


def test_a_group_is_ours_by_the_uid_of_its_owner() -> None:
    ours = PodGroup(metadata=ObjectMeta(name="podgroup-rs-uid", namespace="ns", owner_references=(RS,)))
    theirs = msgspec.structs.replace(ours, metadata=ObjectMeta(name="podgroup-mine", owner_references=(RS,)))
    assert list(group_keys(ours)) == ["ns/podgroup-rs-uid"]
    assert list(group_keys(theirs)) == []


def test_the_minimum_is_of_quota_keys_for_all_members() -> None:
    made = desired_content(pod(), [replica_set({names.GROUP_MIN_MEMBER: "3"})])
    assert made.spec.min_member == 3
    assert made.spec.min_resources == {
        "count/pods": "3", "pods": "3", "cpu": "1500m", "requests.cpu": "1500m", "limits.cpu": "3",
        "example.com/gpu": "3", "requests.example.com/gpu": "3",
    }  # fmt: skip
    assert made.spec.priority_class_name == "high"


@pytest.mark.parametrize(("text", "members"), [("0", 0), ("+2", 2), ("-1", 1), ("two", 1), ("", 1), ("1.5", 1)])
def test_a_minimum_that_is_none_is_one(text: str, members: int) -> None:
    made = desired_content(pod(), [replica_set({names.GROUP_MIN_MEMBER: text})])
    assert made.spec.min_member == members
    assert group_manifest(pod(), made)["spec"]["minMember"] == members


def test_a_gang_is_no_larger_than_its_replica_set() -> None:
    """Else a rollout, which begins with a pod, would wait for ever."""
    minimum = {names.GROUP_MIN_MEMBER: "3"}
    assert [desired_content(pod(), [replica_set(minimum, size)]).spec.min_member for size in (1, 2, 3, 4)] == [
        1,
        2,
        3,
        3,
    ]


def test_annotations_come_from_the_first_owner_and_the_pod_has_the_last_word() -> None:
    first = replica_set({"volcano.sh/a": "first", names.PREEMPTABLE: "true", "other/x": "1"})
    second = replica_set({"volcano.sh/a": "second", "volcano.sh/b": "2"})
    made = desired_content(
        pod(annotations={names.PREEMPTABLE: "false", "volcano.sh/own": "x"}, labels={names.COOLDOWN_TIME: "1m"}),
        [first, second],
    )
    assert made.annotations == {"volcano.sh/a": "first", "volcano.sh/b": "2", names.PREEMPTABLE: "false"}
    assert made.labels == {names.COOLDOWN_TIME: "1m"}


@pytest.mark.parametrize(
    ("annotations", "topology"),
    [
        ({}, None),
        ({names.TOPOLOGY_MODE: "Soft"}, NetworkTopology(mode="soft")),
        ({names.TOPOLOGY_MODE: "odd"}, NetworkTopology(mode="hard")),
        ({names.TOPOLOGY_HIGHEST_TIER: "2"}, NetworkTopology(mode="hard", highest_tier_allowed=2)),
        ({names.TOPOLOGY_HIGHEST_TIER: "x"}, NetworkTopology(mode="hard")),
    ],
)
def test_the_topology_is_that_of_the_pod(annotations: dict[str, str], topology: NetworkTopology | None) -> None:
    assert desired_content(pod(annotations=annotations), []).spec.network_topology == topology


def test_the_owner_is_the_pods_owner_or_the_pod() -> None:
    owned = group_manifest(pod(), desired_content(pod(), []))["metadata"]["ownerReferences"]
    assert [(owner["kind"], owner["uid"]) for owner in owned] == [("ReplicaSet", "rs-uid")]
    bare = pod(owner=None)
    (owner,) = group_manifest(bare, desired_content(bare, []))["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("Pod", "pod-uid", True)


def test_fields_of_other_clients_are_kept() -> None:
    made = desired_content(pod(), [replica_set({"volcano.sh/a": "1"})])
    group = msgspec.convert(group_manifest(pod(), made), PodGroup)
    group = msgspec.structs.replace(
        group,
        metadata=msgspec.structs.replace(group.metadata, annotations={"volcano.sh/a": "1", "theirs": "x"}),
        spec=msgspec.structs.replace(group.spec, queue="research"),
    )
    assert group_patch(group, made) == {}
    zero = desired_content(pod(), [replica_set({names.GROUP_MIN_MEMBER: "0", "volcano.sh/a": "2"})])
    patch = group_patch(group, zero)
    assert patch["spec"]["minMember"] == 0
    assert patch["metadata"] == {"annotations": {"volcano.sh/a": "2"}}
    moved = desired_content(pod(annotations={names.QUEUE_NAME_ANNOTATION: "other"}), [])
    assert group_patch(group, moved)["spec"] == {"queue": "other"}
