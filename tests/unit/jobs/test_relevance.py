"""Changes of pods that no plan looks at ask for none, as their number times a plan's size would be the job's square."""

from __future__ import annotations

import msgspec
import pytest

from volcanoio.engine.jobs.overlay import Overlay
from volcanoio.engine.jobs.relevance import is_bookkeeping, may_alter_plan
from volcanoio.engine.jobs.state import JobState
from volcanoio.framework.events import Change, Observed
from volcanoio.model.base import ObjectMeta
from volcanoio.model.core import Condition, ContainerStatus, Pod, PodSpec, PodStatus
from volcanoio.model.scheduling import Queue, QueueSpec, QueueStatus

POD = Pod(metadata=ObjectMeta(name="p", uid="u", resource_version="1"), status=PodStatus(phase="Pending"))
STATE = JobState(pods=Overlay({"u": POD, "v": POD}), started=True)


def changed(**changes: object) -> JobState:
    return msgspec.structs.replace(STATE, pods=STATE.pods.with_item("u", msgspec.structs.replace(POD, **changes)))


def test_a_pod_that_was_bound_or_got_an_address_alters_no_plan() -> None:
    status = PodStatus(phase="Pending", conditions=(Condition(type="PodScheduled"),), pod_ip="10.0.0.1")
    assert not may_alter_plan(STATE, changed(spec=PodSpec(node_name="n"), status=status), "u")
    assert not may_alter_plan(STATE, STATE, "u")


@pytest.mark.parametrize(
    "after",
    [
        changed(status=PodStatus(phase="Running")),
        changed(status=PodStatus(phase="Pending", container_statuses=(ContainerStatus(restart_count=1),))),
        changed(metadata=ObjectMeta(name="p", uid="u", deletion_timestamp="2026-01-01T00:00:00Z")),
        changed(metadata=ObjectMeta(name="p", uid="u", annotations={"a": "b"})),
        msgspec.structs.replace(STATE, pods=STATE.pods.without("u")),
        msgspec.structs.replace(STATE, retry_at=1.0),
        msgspec.structs.replace(STATE, started=False),
    ],
)
def test_what_a_plan_reads_asks_for_one(after: JobState) -> None:
    assert may_alter_plan(STATE, after, "u")


def test_a_pod_seen_first_asks_for_a_plan() -> None:
    assert may_alter_plan(msgspec.structs.replace(STATE, pods=Overlay()), STATE, "u")


QUEUE = Queue(metadata=ObjectMeta(name="q", uid="q1"), status=QueueStatus(state="Open", running=1))


def queue_seen(old: Queue | None, new: Queue) -> Observed:
    resource = "queues.scheduling.volcano.sh"
    return Observed(resource=resource, change=Change.CHANGED, object=new, previous=old)


def test_jobs_do_not_look_at_how_many_their_queue_counts() -> None:
    counted = msgspec.structs.replace(QUEUE, status=QueueStatus(state="Open", running=2))
    assert is_bookkeeping(queue_seen(QUEUE, counted))


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
def test_anything_else_of_a_queue_may_matter(old: Queue | None, new: Queue) -> None:
    assert not is_bookkeeping(queue_seen(old, new))
