"""The timeline of a job: each step, with its number, cycle and causes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.unit.journals.writing import GROUP, Writer, group, job, pod
from volcanoio.bus.journal import JournalError
from volcanoio.bus.records import Decided as DecidedRecord
from volcanoio.compose.journals.live_timeline import objects_timeline
from volcanoio.compose.journals.timeline import (
    Entry,
    EntryKind,
    UnknownJobError,
    grouped,
    journal_timeline,
)
from volcanoio.framework.decisions import Act
from volcanoio.framework.effects import Patch
from volcanoio.framework.events import Answered, Change
from volcanoio.framework.scheduling_effects import BindBatch, BindRequest, Evict
from volcanoio.framework.scheduling_events import BindDone, CycleOpened, Decided
from volcanoio.model import kinds
from volcanoio.model.base import Manifest, ObjectMeta, ObjectReference
from volcanoio.model.batch import JobAction
from volcanoio.model.core import (
    Condition,
    ContainerState,
    ContainerStateTerminated,
    ContainerStatus,
    Event,
    Pod,
    PodStatus,
)

POD_GROUPS = kinds.POD_GROUP.resource


def failed(index: int) -> Pod:
    ended = ContainerState(terminated=ContainerStateTerminated(exit_code=3, reason="OOMKilled"))
    return pod(index, "Failed", "node-1", container_statuses=(ContainerStatus(name="main", state=ended),))


def decided_by_controller(cause: int, phase: str) -> DecidedRecord:
    patch = {"effect": "Patch", "resource": kinds.JOB.resource, "patch": {"status": {"state": {"phase": phase}}}}
    return DecidedRecord(actor="job-controller", key="default/train", cause=cause, effects=[[patch]])


def record(directory: Path) -> None:
    """A job is admitted and bound; a pod fails, so the job restarts; then a pod is evicted."""
    ctl = Writer(directory, "controllers")
    first = ctl.see(job(), change=Change.APPEARED, at=100.0)
    ctl.write(decided_by_controller(first, "Pending"))
    ctl.see(job("Pending"), at=100.1)
    ctl.see(group(), change=Change.APPEARED)
    ctl.see(pod(0), pod(1), change=Change.APPEARED, at=101.0)
    ctl.see(pod(0, "Running", "node-1"), pod(1, "Running", "node-1"), at=102.0)
    failure = ctl.see(failed(0), at=105.0)
    answer = Answered(
        controller="job-controller",
        key="default/train",
        question=1,
        decision=Act(action=JobAction.RESTART_JOB),
        policy="declared",
    )
    answered = ctl.event(answer, cause=failure)
    ctl.write(decided_by_controller(answered, "Restarting"))
    ctl.see(job("Restarting", retry_count=1), at=105.2)

    sched = Writer(directory, "scheduler")
    appeared = sched.see(group(), change=Change.APPEARED, at=100.1)
    opened = sched.event(CycleOpened(cycle=7, upto=1, seed=1), at=100.4, cause=appeared)
    inqueue = Patch(resource=POD_GROUPS, namespace="default", name=GROUP, patch={"status": {"phase": "Inqueue"}})
    sched.event(Decided(cycle=7, decisions=(inqueue,)), cause=opened)
    opened = sched.event(CycleOpened(cycle=8, upto=1, seed=1), at=101.2)
    request: dict[str, Any] = {"namespace": "default", "node": "node-1"}
    binds = tuple(BindRequest(uid=f"train-worker-{i}.1", name=f"train-worker-{i}", **request) for i in (0, 1))
    batch = BindBatch(group=f"default/{GROUP}", cycle=8, binds=binds)
    decided = sched.event(Decided(cycle=8, decisions=(batch,)), cause=opened)
    for bind in binds:
        done = BindDone(group=f"default/{GROUP}", uid=bind.uid, name=bind.name, **request)
        sched.event(done, at=101.3, cause=decided)
    opened = sched.event(CycleOpened(cycle=9, upto=1, seed=1), at=110.0)
    victim = Evict(group=f"default/{GROUP}", uid="train-worker-1.1", name="train-worker-1", reason="preempt", **request)
    nominated = {"status": {"nominatedNodeName": "node-1"}}
    profits = Patch(resource="pods", namespace="default", name="urgent-0", patch=nominated, subresource="status")
    sched.event(Decided(cycle=9, decisions=(victim, profits)), cause=opened)


def test_a_journal_gives_every_step_with_its_number_and_cycle(tmp_path: Path) -> None:
    record(tmp_path)
    found = journal_timeline(tmp_path, "train")
    assert (found.job, found.uid, found.source) == ("default/train", "job-1", "journal")
    assert [(entry.process, entry.seq, entry.cycle, entry.text) for entry in grouped(found.entries)] == [
        ("controllers", 1, 0, "submitted to queue ml: 2 pods (worker 2); 2 needed together"),
        ("controllers", 2, 0, "new → Pending"),
        ("controllers", 3, 0, f"PodGroup {GROUP} created: at least 2 pods, with cpu 2"),
        ("scheduler", 3, 7, "admitted to its queue after 0.4 s"),
        ("controllers", 4, 0, "2 pods created"),
        ("scheduler", 6, 8, "2 pods bound to node-1"),
        ("controllers", 6, 0, "2 pods started"),
        ("controllers", 8, 0, "train-worker-0 ended: Failed, exit code 3, OOMKilled"),
        ("controllers", 9, 0, "policy declared: RestartJob"),
        ("controllers", 10, 0, "Pending → Restarting, retry 1 of 3"),
        ("scheduler", 9, 9, "train-worker-1 evicted: by action preempt, for default/urgent-0"),
    ]


def test_causes_lead_from_the_external_event_to_the_entry(tmp_path: Path) -> None:
    record(tmp_path)
    causes = {
        entry.kind: [(each.seq, each.text) for each in entry.causes]
        for entry in journal_timeline(tmp_path, "train").entries
    }
    assert causes[EntryKind.PHASE] == [
        (8, "pod default/train-worker-0 changed: Failed, exit code 3, OOMKilled"),
        (9, "answer of policy declared about default/train"),
    ]
    assert causes[EntryKind.ENQUEUED] == [(1, f"podgroups default/{GROUP} appeared"), (2, "cycle 7")]
    assert causes[EntryKind.BOUND] == [(4, "cycle 8"), (5, "decisions of cycle 8")]


def test_only_the_last_job_of_a_name_is_shown(tmp_path: Path) -> None:
    record(tmp_path)
    ctl = Writer(tmp_path, "controllers")
    ctl.now = 200.0
    other = job()
    ctl.see(type(other)(metadata=ObjectMeta(name="train", namespace="default", uid="job-2")), change=Change.APPEARED)
    found = journal_timeline(tmp_path, "train")
    assert (found.uid, found.earlier) == ("job-2", 1)
    assert [entry.kind for entry in found.entries] == [EntryKind.SUBMITTED]
    assert found.entries[0].run == 2, "the second start of the controllers"


def test_the_scheduler_alone_gives_what_it_observed(tmp_path: Path) -> None:
    record(tmp_path)
    for path in (tmp_path / "controllers").iterdir():
        path.unlink()
    (tmp_path / "controllers").rmdir()
    assert [entry.text for entry in grouped(journal_timeline(tmp_path, "train").entries)] == [
        f"PodGroup {GROUP} created: at least 2 pods, with cpu 2",
        "admitted to its queue after 0.3 s",
        "2 pods bound to node-1",
        "train-worker-1 evicted: by action preempt, for default/urgent-0",
    ]


def test_a_pod_group_that_is_created_again_is_a_new_one(tmp_path: Path) -> None:
    sched = Writer(tmp_path, "scheduler")
    request: dict[str, Any] = {"group": "default/train", "namespace": "default", "node": "node-1"}
    for number in (1, 2):
        meta = ObjectMeta(name="train", namespace="default", uid=f"group-{number}")
        own = msgspec.structs.replace(group(), metadata=meta)
        sched.see(own, change=Change.APPEARED, at=100.0 * number)
        sched.event(BindDone(uid=f"pod-{number}", name=f"train-{number}", **request))
        sched.see(own, change=Change.GONE, at=100.0 * number + 50)
    found = journal_timeline(tmp_path, "train")
    assert (found.uid, found.earlier) == ("group-2", 1)
    assert [entry.text for entry in found.entries] == [
        "PodGroup train created: at least 2 pods, with cpu 2",
        "train-2 bound to node-1",
    ]


def test_evictions_that_are_counted_together_name_all_pods_that_profit() -> None:
    common: dict[str, Any] = {"kind": EntryKind.EVICTED, "detail": "by action preempt", "at": 1.0, "nodes": ("node-1",)}
    first = Entry(pods=("train-0",), profits=("default/urgent-0",), **common)
    second = Entry(pods=("train-1",), profits=("default/urgent-0", "default/urgent-1"), **common)
    assert [entry.text for entry in grouped([first, second])] == [
        "2 pods evicted: by action preempt, for default/urgent-0, default/urgent-1"
    ]


def test_a_restart_whose_end_before_is_unknown_is_noted_when_the_container_started() -> None:
    manifest: Manifest = {"metadata": {"name": "train", "namespace": "default", "uid": "job-1"}}
    running = ContainerState(running={"startedAt": "2026-01-01T00:00:05Z"})
    shown = pod(0, container_statuses=(ContainerStatus(name="main", state=running, restart_count=1),))
    found = objects_timeline(manifest, [], [shown], [])
    assert [(entry.kind, entry.text) for entry in found.entries] == [
        (EntryKind.STARTED, "train-worker-0 started"),
        (EntryKind.NOTE, "train-worker-0: container main restarted (1 times so far)"),
    ]


def test_unknown_jobs_and_directories_are_named(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="no journal; give the directory of --journal"):
        journal_timeline(tmp_path, "train")
    record(tmp_path)
    with pytest.raises(UnknownJobError, match="contains no job other/train; name its namespace with -n"):
        journal_timeline(tmp_path, "train", "other")


def test_objects_of_a_cluster_give_what_they_still_contain() -> None:
    meta = {"name": "train", "namespace": "default", "uid": "job-1", "creationTimestamp": "2026-01-01T00:00:00Z"}
    meta["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": '{"spec": {"minAvailable": 2}}'}  # type: ignore[assignment]
    manifest: Manifest = {
        "metadata": meta,
        "spec": {"minAvailable": 2, "queue": "ml", "tasks": [{"name": "worker", "replicas": 2}]},
        "status": {"conditions": [{"status": "Running", "lastTransitionTime": "2026-01-01T00:00:03Z"}]},
    }
    ended = ContainerStateTerminated(started_at="2026-01-01T00:00:02Z", finished_at="2026-01-01T00:00:09Z")
    status = PodStatus(
        phase="Succeeded",
        conditions=(Condition(type="PodScheduled", status="True", last_transition_time="2026-01-01T00:00:01Z"),),
        container_statuses=(ContainerStatus(name="main", state=ContainerState(terminated=ended)),),
    )
    own = pod(0, node="node-1")
    shown = Pod(
        metadata=msgspec.structs.replace(own.metadata, creation_timestamp="2026-01-01T00:00:01Z"),
        spec=own.spec,
        status=status,
    )
    event = Event(
        involved_object=ObjectReference(kind="Pod", name="train-worker-0"),
        type="Warning",
        reason="Evict",
        message="Pod is evicted, because of preempt",
        first_timestamp="2026-01-01T00:00:08Z",
    )
    older = Event(
        involved_object=ObjectReference(kind="Job", name="train"),
        reason="ExecuteAction",
        message="of an earlier job of this name",
        first_timestamp="2025-12-31T00:00:00Z",
    )
    found = objects_timeline(manifest, [], [shown], [event, older])
    start = found.entries[0].at
    assert [(entry.at - start, entry.text) for entry in found.entries] == [
        (0, "submitted to queue ml: 2 pods (worker 2); 2 needed together"),
        (0, "admission set queue ml, tasks"),
        (1, "admitted to its queue, at the latest now: its first pod was created"),
        (1, "train-worker-0 created"),
        (1, "train-worker-0 bound to node-1"),
        (2, "train-worker-0 started"),
        (3, "phase Running"),
        (8, "train-worker-0 evicted: Pod is evicted, because of preempt"),
        (9, "train-worker-0 ended: Succeeded"),
    ]
