"""Changes of pods that no plan looks at ask for none, as their number times a plan's size would be the job's square."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from volcanoio.engine.jobs import controller
from volcanoio.engine.jobs.controller import reduce_job
from volcanoio.engine.jobs.pods.persistent_collections import PersistentMap, UidSet
from volcanoio.engine.jobs.pods.plugins import PluginCache
from volcanoio.engine.jobs.state.job_state import JobState
from volcanoio.engine.jobs.status.writes import can_change_plan, is_queue_count_update
from volcanoio.framework.controller import View
from volcanoio.framework.effects import Create
from volcanoio.framework.events import Change, Observed
from volcanoio.model import names
from volcanoio.model.base import ApiObject, ObjectMeta, OwnerReference
from volcanoio.model.batch import Job, JobSpec, TaskSpec
from volcanoio.model.core import Condition, ContainerStatus, Pod, PodSpec, PodStatus
from volcanoio.model.kinds import Kind
from volcanoio.model.scheduling import Queue, QueueSpec, QueueStatus

POD = Pod(metadata=ObjectMeta(name="p", uid="u", resource_version="1"), status=PodStatus(phase="Pending"))
STATE = JobState(pods=PersistentMap({"u": POD, "v": POD}), is_started=True)


def changed(**changes: object) -> JobState:
    return msgspec.structs.replace(STATE, pods=STATE.pods.with_item("u", msgspec.structs.replace(POD, **changes)))


def test_a_pod_that_was_bound_or_got_an_address_alters_no_plan() -> None:
    status = PodStatus(phase="Pending", conditions=(Condition(type="PodScheduled"),), pod_ip="10.0.0.1")
    assert not can_change_plan(STATE, changed(spec=PodSpec(node_name="n"), status=status), "u")
    assert not can_change_plan(STATE, STATE, "u")


@pytest.mark.parametrize(
    "after",
    [
        changed(status=PodStatus(phase="Running")),
        changed(status=PodStatus(phase="Pending", container_statuses=(ContainerStatus(restart_count=1),))),
        changed(metadata=ObjectMeta(name="p", uid="u", deletion_timestamp="2026-01-01T00:00:00Z")),
        changed(metadata=ObjectMeta(name="p", uid="u", annotations={"a": "b"})),
        msgspec.structs.replace(STATE, pods=STATE.pods.without("u")),
        msgspec.structs.replace(STATE, retry_at=1.0),
        msgspec.structs.replace(STATE, is_started=False),
    ],
)
def test_changes_that_a_plan_reads_cause_a_plan(after: JobState) -> None:
    assert can_change_plan(STATE, after, "u")


def test_a_pod_seen_first_asks_for_a_plan() -> None:
    assert can_change_plan(msgspec.structs.replace(STATE, pods=PersistentMap()), STATE, "u")


QUEUE = Queue(metadata=ObjectMeta(name="q", uid="q1"), status=QueueStatus(state="Open", running=1))


def queue_seen(old: Queue | None, new: Queue) -> Observed:
    resource = "queues.scheduling.volcano.sh"
    return Observed(resource=resource, change=Change.CHANGED, object=new, previous=old)


def test_jobs_do_not_look_at_how_many_their_queue_counts() -> None:
    counted = msgspec.structs.replace(QUEUE, status=QueueStatus(state="Open", running=2))
    assert is_queue_count_update(queue_seen(QUEUE, counted))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (None, QUEUE),
        (QUEUE, msgspec.structs.replace(QUEUE, status=QueueStatus(state="Closed", running=1))),
        (QUEUE, msgspec.structs.replace(QUEUE, spec=QueueSpec(weight=3))),
        (QUEUE, msgspec.structs.replace(QUEUE, metadata=ObjectMeta(name="q", uid="q2"))),
        (POD, POD),
    ],
)
def test_other_changes_of_a_queue_cause_a_plan(old: Queue | None, new: Queue) -> None:
    assert not is_queue_count_update(queue_seen(old, new))


PODS = st.builds(
    lambda revision, node, phase, restarts, going, mark: Pod(
        metadata=ObjectMeta(
            name="j-t-0",
            namespace="ns",
            uid="u",
            resource_version=str(revision),
            deletion_timestamp=going,
            annotations={names.TASK_SPEC: "t", names.JOB_VERSION: "0", names.TASK_INDEX: "0", **mark},
            owner_references=(OwnerReference(uid="j", controller=True),),
        ),
        spec=PodSpec(node_name=node),
        status=PodStatus(phase=phase, container_statuses=(ContainerStatus(restart_count=restarts),)),
    ),
    revision=st.integers(1, 4),
    node=st.sampled_from(["", "n"]),
    phase=st.sampled_from(["Pending", "Running", "Failed"]),
    restarts=st.integers(0, 1),
    going=st.sampled_from([None, "2026-01-01T00:00:00Z"]),
    mark=st.sampled_from([{}, {"a": "b"}]),
)
JOB = Job(metadata=ObjectMeta(name="j", namespace="ns", uid="j"), spec=JobSpec(tasks=(TaskSpec(name="t", replicas=1),)))


class NoReferences:
    def get(self, kind: Kind, name: str, namespace: str = "") -> ApiObject | None:
        del kind, name, namespace
        return None

    def all(self, kind: Kind) -> list[ApiObject]:
        del kind
        return []

    def for_key(self, kind: Kind) -> list[ApiObject]:
        del kind
        return []


@given(st.lists(PODS, max_size=1), PODS, st.sampled_from([None, JOB]), st.sampled_from(list(Change)), st.booleans())
def test_a_pod_that_no_plan_looks_at_is_folded_as_any(
    held: list[Pod], pod: Pod, job: Job | None, change: Change, went: bool
) -> None:
    gone = UidSet({"u"} if went else ())
    writing = Create(resource="pods", manifest={})
    state = JobState(
        job=job,
        pods=PersistentMap({one.metadata.uid: one for one in held}),
        is_started=True,
        sent_writes=(writing,),
        deleted_uids=gone,
    )
    event = Observed(resource="pods", change=change, object=pod)
    view = View(key="ns/j", now=1.0, synced=True, lookup=NoReferences())
    seen = reduce_job(state, event, view, PluginCache({}))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(controller, "fold_irrelevant_change", lambda state, event: None)
        assert reduce_job(state, event, view, PluginCache({})) == seen
