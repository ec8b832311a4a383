"""What only a running scheduler remembers, as data: `remember` reads it from a state, `restore` sets it in another.

Both states must be between two cycles. A snapshot of a cluster contains it beside the API objects, so that a simulation
decides as the running scheduler would. Decisions that are being carried out are applied to the objects (`as_decided`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from volcanoio.engine.scheduling.cluster.loads import Load
from volcanoio.engine.scheduling.cluster.nominations import Nomination, Reservation
from volcanoio.engine.scheduling.cluster.state import ClusterState
from volcanoio.framework.scheduling.views import TaskStatus
from volcanoio.framework.scheduling_events import FactsSaid
from volcanoio.model.base import ApiObject
from volcanoio.model.core import Pod
from volcanoio.model.times import rfc3339

MEMORY_KIND, MEMORY_VERSION = "SchedulerMemory", "volcanoio.dev/v1alpha1"
"""Kind and apiVersion of the memory among the objects of a snapshot; it is no API object."""


class BackOff(msgspec.Struct, frozen=True, rename="camel"):
    """A pod whose bind was refused: how often in a row, when it is tried again (epoch seconds), and the last reason."""

    refusals: int
    retry_at: float
    message: str = ""


class NominatedPod(msgspec.Struct, frozen=True, rename="camel"):
    """A nominated pod, by uid: its node, and the uids of the pods that were evicted for it, None if unknown."""

    uid: str
    node: str
    victims: tuple[str, ...] | None = None
    expires_at: float | None = None


class ReservedRoom(msgspec.Struct, frozen=True, rename="camel"):
    """Room on a node that is kept for a job: as much as its pod of that uid requests."""

    node: str
    uid: str


class UrgentJob(msgspec.Struct, frozen=True, rename="camel"):
    """A job with a refused bind: until when it goes before all others (epoch seconds), and its reserved room."""

    until: float
    reserved: tuple[ReservedRoom, ...] = ()


class SchedulerMemory(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The memory of a scheduler at one time (epoch seconds), by uid of pods and key of jobs.

    `binding` are pods whose bind is in flight, with their nodes; `evicting` pods whose eviction is. `facts` are those
    of sources, such as the usage of nodes, by source. `configuration` is the file that is in force.
    """

    at: float
    cycle: int = 0
    configuration: str = ""
    binding: dict[str, str] = {}
    evicting: tuple[str, ...] = ()
    back_off: dict[str, BackOff] = {}
    urgent: dict[str, UrgentJob] = {}
    nominated: tuple[NominatedPod, ...] = ()
    facts: dict[str, dict[str, Any]] = {}


def remember(state: ClusterState, *, now: float, cycle: int = 0, configuration: str = "") -> SchedulerMemory:
    """Return the memory of a state between two cycles."""
    waiting = [
        task for job in state.ledger.pending_jobs.values() for task in job.pending.values() if task.bind_refusals
    ]
    binding = {
        task.uid: task.node
        for job in state.ledger.jobs.values()
        if job.counts[TaskStatus.BINDING]
        for task in job.members.values()
        if task.status is TaskStatus.BINDING
    }
    return SchedulerMemory(
        at=now,
        cycle=cycle,
        configuration=configuration,
        binding=binding,
        evicting=tuple(sorted(state.pods.evicting)),
        back_off={task.uid: BackOff(task.bind_refusals, task.retry_at, task.last_refusal) for task in waiting},
        urgent={
            key: UrgentJob(job.urgent_until, _reserved(state, key)) for key, job in state.bind_refused_jobs.items()
        },
        nominated=tuple(
            NominatedPod(uid, each.node, _sorted(each.victims), each.expires_at)
            for uid, each in state.nominations.by_task.items()
        ),
        facts=state.inputs.all_facts(),
    )


def _sorted(victims: set[str] | None) -> tuple[str, ...] | None:
    return None if victims is None else tuple(sorted(victims))


def _reserved(state: ClusterState, job: str) -> tuple[ReservedRoom, ...]:
    """Return the reservations of a job; those of shapes that none of its pods has any more are left out."""
    members = state.ledger.jobs[job].members if job in state.ledger.jobs else {}
    by_shape = {task.shape.base_id: task.uid for task in members.values()}
    return tuple(
        ReservedRoom(each.node, by_shape[each.shape.base_id])
        for each in state.reservations.by_job.get(job, ())
        if each.load is Load.OCCUPIES and each.shape.base_id in by_shape
    )


def as_decided(objects: Iterable[ApiObject], memory: SchedulerMemory) -> list[ApiObject]:
    """Return the objects with the decisions that are in flight: pods have their nodes, and evicted ones terminate."""
    result, evicting = [], frozenset(memory.evicting)
    for obj in objects:
        if isinstance(obj, Pod):
            uid = obj.metadata.uid
            if (node := memory.binding.get(uid)) and not obj.spec.node_name:
                obj = msgspec.structs.replace(obj, spec=msgspec.structs.replace(obj.spec, node_name=node))
            if uid in evicting and not obj.metadata.deletion_timestamp:
                meta = msgspec.structs.replace(obj.metadata, deletion_timestamp=rfc3339(memory.at))
                obj = msgspec.structs.replace(obj, metadata=meta)
        result.append(obj)
    return result


def restore(state: ClusterState, memory: SchedulerMemory) -> None:
    """Set the memory in a state that has folded the objects; what no longer exists there is left out."""
    tasks, jobs = state.ledger.tasks, state.ledger.jobs
    for uid, back_off in memory.back_off.items():
        if (task := tasks.get(uid)) is not None and task.status is TaskStatus.PENDING:
            task.bind_refusals, task.retry_at = back_off.refusals, back_off.retry_at
            task.last_refusal = back_off.message
    for key, urgent in memory.urgent.items():
        if (job := jobs.get(key)) is not None and job.pending:
            job.urgent_until = urgent.until
            state.bind_refused_jobs[key] = job
            for room in urgent.reserved:
                if (task := tasks.get(room.uid)) is not None:
                    state.reservations.add(key, Reservation(room.node, task.shape))
    for nominated in memory.nominated:
        if (task := tasks.get(nominated.uid)) is not None and task.status is TaskStatus.PENDING:
            victims = None if nominated.victims is None else set(nominated.victims)
            state.nominations.by_task[task.uid] = Nomination(task, nominated.node, victims, nominated.expires_at)
    for source, facts in memory.facts.items():
        state.fold(FactsSaid(at=memory.at, source=source, facts=facts, whole=True))
