"""What the PodGroup controller does about pods, workloads, refusals and its own deaths."""

from __future__ import annotations

import pytest

from tests.unit.podgroups.workloads import Workloads
from volcanoio.model import kinds, names


@pytest.fixture
def world() -> Workloads:
    return Workloads()


def replica_set(world: Workloads, pods: int = 3, minimum: int = 3) -> None:
    """A ReplicaSet and its pods."""
    world.workload(kinds.REPLICA_SET, "web", pods, **{names.GROUP_MIN_MEMBER: str(minimum)})
    for index in range(pods):
        world.pod(f"web-{index}", kinds.REPLICA_SET, "web")


def test_pods_of_a_workload_share_a_group_and_are_marked_with_it(world: Workloads) -> None:
    replica_set(world)
    assert world.marks() == dict.fromkeys(("web-0", "web-1", "web-2"), "podgroup-web-uid")
    assert world.groups()["podgroup-web-uid"].spec.min_member == 3
    assert sorted(world.writes) == [
        "create podgroup-web-uid", "patch web-0", "patch web-1", "patch web-2",
    ]  # fmt: skip


def test_nothing_is_written_twice_by_the_next_process(world: Workloads) -> None:
    replica_set(world)
    written = list(world.writes)
    world.start()
    assert world.writes == written


@pytest.mark.parametrize("survived", range(6))
def test_a_process_killed_between_any_two_writes_is_taken_up_by_the_next(survived: int) -> None:
    whole, broken = Workloads(), Workloads()
    replica_set(whole)
    broken.dies_at = survived + 1
    replica_set(broken)
    assert broken.marks() == whole.marks()
    assert {name: group.spec for name, group in broken.groups().items()} == {
        name: group.spec for name, group in whole.groups().items()
    }


def test_a_workload_with_zero_replicas_has_no_group_until_scaled_up(world: Workloads) -> None:
    replica_set(world, pods=1, minimum=1)
    world.workload(kinds.REPLICA_SET, "web", 0)
    assert world.groups() == {}
    world.remove(kinds.POD, "ns/web-0")
    world.workload(kinds.REPLICA_SET, "web", 2)
    assert world.groups() == {}
    world.pod("web-1", kinds.REPLICA_SET, "web")
    assert list(world.groups()) == ["podgroup-web-uid"]


def test_a_group_follows_its_owner(world: Workloads) -> None:
    replica_set(world)
    world.workload(kinds.REPLICA_SET, "web", 3, **{names.GROUP_MIN_MEMBER: "2", "volcano.sh/sla-waiting-time": "1h"})
    group = world.groups()["podgroup-web-uid"]
    assert group.spec.min_member == 2
    assert group.metadata.annotations == {"volcano.sh/sla-waiting-time": "1h"}


def test_pods_of_an_owner_that_is_gone_get_no_group(world: Workloads) -> None:
    """They are about to go, too; one that only comes late is waited for."""
    world.pod("web-0", kinds.REPLICA_SET, "web")
    assert world.writes == []
    world.workload(kinds.REPLICA_SET, "web", 1)
    assert world.marks() == {"web-0": "podgroup-web-uid"}


def test_an_owner_of_another_api_group_is_ignored(world: Workloads) -> None:
    """Its pods are a group all the same, of one member, that goes with it."""
    world.pod("mpi-0", kinds.JOB, "mpi")
    group = world.groups()["podgroup-mpi-uid"]
    assert (group.spec.min_member, group.metadata.owner_references[0].api_version) == (1, kinds.JOB.api_version)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_ended_gets_no_group(world: Workloads, phase: str) -> None:
    world.pod("done", status={"phase": phase})
    assert world.writes == []


def test_a_deleted_group_is_created_again_while_its_pods_exist(world: Workloads) -> None:
    world.pod("alone")
    world.remove(kinds.POD_GROUP, "ns/podgroup-alone-uid")
    assert list(world.groups()) == ["podgroup-alone-uid"]
    world.remove(kinds.POD, "ns/alone")
    world.remove(kinds.POD_GROUP, "ns/podgroup-alone-uid")
    assert world.groups() == {}
    assert world.host["pg-controller"].keys == []


def test_a_refusal_is_reported_on_the_pod_and_retried_with_back_off(world: Workloads) -> None:
    world.refuse = [(403, "refused")] * 3
    world.pod("alone")
    assert world.events == ["Warning FailedCreate: PodGroup podgroup-alone-uid: refused"]
    for waits, tried in ((0.9, 1), (0.2, 2), (1.8, 2), (0.3, 3), (3.5, 3), (0.6, 4)):
        world.wait(waits)
        assert sum(write == "403 Create" or write.startswith("create") for write in world.writes) == tried
    assert world.marks() == {"alone": "podgroup-alone-uid"}


def test_a_mark_that_is_refused_is_made_later(world: Workloads) -> None:
    world.refuse = [(0, ""), (500, "refused")]
    world.pod("alone")
    assert world.marks() == {"alone": ""}
    world.wait(2)
    assert world.marks() == {"alone": "podgroup-alone-uid"}


def test_a_stateful_set_is_followed_by_the_revision_it_is_going_to(world: Workloads) -> None:
    def pod(name: str, revision: str, cpu: str, at: str) -> None:
        labels = {"controller-revision-hash": revision}
        container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
        world.pod(
            name, kinds.STATEFUL_SET, "db", metadata={"labels": labels, "creationTimestamp": at},
            spec={"schedulerName": "volcano", "containers": [container]},
        )  # fmt: skip

    def stateful_set(revision: str) -> None:
        meta = {"name": "db", "namespace": "ns", "uid": "db-uid"}
        world.put(
            kinds.STATEFUL_SET,
            {"metadata": meta, "spec": {"replicas": 2}, "status": {"updateRevision": revision}},
        )

    def cpu() -> str:
        listed = world.groups()["podgroup-db-uid"].spec.min_resources
        assert listed
        return str(listed["cpu"])

    stateful_set("one")
    pod("db-0", "one", "1", "2026-01-01T00:00:00Z")
    assert cpu() == "1"
    pod("db-1", "two", "2", "2026-01-01T00:00:01Z")
    assert cpu() == "1"
    stateful_set("two")
    assert cpu() == "2"


def test_annotations_that_cannot_be_read_are_reported_on_a_pod(world: Workloads) -> None:
    world.workload(kinds.REPLICA_SET, "web", 1, **{names.GROUP_MIN_MEMBER: "two"})
    world.pod("web-0", kinds.REPLICA_SET, "web")
    (reported,) = world.events
    assert reported.startswith(
        'Warning InvalidAnnotation: annotation scheduling.volcano.sh/group-min-member of its owner is "two"'
    )
    assert [group.spec.min_member for group in world.groups().values()] == [1]
