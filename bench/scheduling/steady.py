"""Rows of a full cluster: a cycle in which nothing changed, and one event with the cycle it causes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import msgspec

from bench.engine import default_profile
from bench.scheduling.driving import LATE, Driven, drive, fold, freeze_garbage
from bench.statistics import percentile
from bench.workload import NODE_TYPES, SHAPES, TYPE_OF_TEN, Workload
from volcanoio.engine.scheduling.cluster.memory import SchedulerMemory, remember
from volcanoio.engine.scheduling.cluster.state import ClusterState
from volcanoio.engine.scheduling.config.profile import Profile
from volcanoio.engine.scheduling.diagnosis.answers import about_job, about_queue
from volcanoio.engine.scheduling.session.session import CycleSession
from volcanoio.framework.events import Change, Observed
from volcanoio.model import kinds, names
from volcanoio.model.base import ApiObject
from volcanoio.model.core import Pod, PodStatus
from volcanoio.model.scheduling import PodGroup, PodGroupStatus
from volcanoio.runtime.scheduler.cache_dump import Held, encoded

WAITING = 1000
GANG = 8
NOW = 1_800_000_000.0
QUIET = 30
"""Number of cycles without changes, a schedule period apart."""
EVENTS = 300


class FullCluster(Workload):
    """The workload with all its gangs running, and waiting groups whose pods do not fit any node.

    Every second waiting group is admitted and finds no node; the others are not admitted.
    """

    def running(self) -> Iterator[ApiObject]:
        """Yield nodes, queues, and pods on nodes in turn, as many on each as fit."""
        yield from self.node_objects()
        yield from self.queue_objects()
        for group in self.group_objects():
            yield msgspec.structs.replace(group, status=PodGroupStatus(phase="Running", running=self.gang))
        rooms = [NODE_TYPES[TYPE_OF_TEN[index % 10]][1] * 1000 for index in range(self.nodes)]
        at = 0
        for pod, facts in zip(self.pod_objects(), self.pod_facts(), strict=True):
            cpu = facts.requests["cpu"]
            while rooms[at] < cpu or (facts.selector and not 5 < at % 10 < 9):
                at = (at + 1) % self.nodes
            rooms[at] -= cpu
            spec = msgspec.structs.replace(pod.spec, node_name=f"node-{at}")
            yield msgspec.structs.replace(pod, spec=spec, status=PodStatus(phase="Running"))
            at = (at + 1) % self.nodes

    def waiting(self, first: int, number: int) -> Iterator[ApiObject]:
        """Yield groups that find no room."""
        large = Workload(self.nodes, number * GANG, GANG, shapes=self.shapes)
        for index, group in enumerate(large.group_objects()):
            admitted = index % 2 == 0
            meta = msgspec.structs.replace(
                group.metadata, name=f"wait-{first + index}", uid=f"uid-wait-{first + index}"
            )
            asked = {} if admitted else {"cpu": "10000000", "memory": "10Ti"}
            spec = msgspec.structs.replace(group.spec, min_resources=asked or None)
            phase = "Inqueue" if admitted else "Pending"
            yield PodGroup(metadata=meta, spec=spec, status=PodGroupStatus(phase=phase))
        for index, pod in enumerate(large.pod_objects()):
            yield waiting_pod(pod, first + index // GANG, index)


def waiting_pod(pod: Pod, group: int, number: int) -> Pod:
    """Return a pod that requests slightly more than 60 cores, by its shape."""
    name = f"wait-{group}-worker-{number}"
    meta = msgspec.structs.replace(
        pod.metadata,
        name=name,
        uid=f"uid-{name}",
        annotations={names.GROUP_NAME: f"wait-{group}", names.TASK_SPEC: "worker"},
    )
    container = pod.spec.containers[0]
    requests = {**container.resources.requests, "cpu": f"{60_000 + group % len(SHAPES)}m"}
    asked = msgspec.structs.replace(
        container, resources=msgspec.structs.replace(container.resources, requests=requests)
    )
    spec = msgspec.structs.replace(pod.spec, containers=(asked,), node_selector={})
    return msgspec.structs.replace(pod, metadata=meta, spec=spec, status=PodStatus(phase="Pending"))


def full(nodes: int, pods: int) -> tuple[ClusterState, FullCluster]:
    """Return a state with the whole cluster."""
    workload = FullCluster(nodes, pods, GANG)
    state = ClusterState()
    fold(state, [*workload.running(), *workload.waiting(0, WAITING)])
    freeze_garbage()
    return state, workload


def quiet(nodes: int, pods: int) -> dict[str, Any]:
    """Measure cycles a schedule period apart in which nothing changed, after the first statuses were written."""
    state, _ = full(nodes, pods)
    profile = default_profile()
    first = [drive(state, profile, number, NOW + number) for number in range(1, 6)]
    cycles = [drive(state, profile, number, NOW + number) for number in range(6, 6 + QUIET)]
    return {
        "nodes": nodes,
        "pods": pods,
        "waiting_groups": WAITING,
        "ms_p50": _ms(percentile([cycle.seconds for cycle in cycles], 0.5)),
        "ms_p99": _ms(max(cycle.seconds for cycle in cycles)),
        "cpu_ms_p50": _ms(percentile([cycle.cpu_seconds for cycle in cycles], 0.5)),
        "first_cycles_ms": [_ms(cycle.seconds) for cycle in first],
        "decisions": sum(len(cycle.decisions) for cycle in cycles),
        "longest_hold_ms": _ms(max(cycle.longest_hold for cycle in (*first, *cycles))),
    }


def event(nodes: int, pods: int) -> dict[str, Any]:
    """Measure one event and its cycle: a pod ends, a pod appears, a group appears, a node changes; in turn."""
    state, workload = full(nodes, pods)
    profile = default_profile()
    for number in range(1, 6):
        drive(state, profile, number, NOW + number)
    causes = _causes(workload)
    walls, cpus, holds = [], [], []
    by_cause: dict[str, list[float]] = {}
    for number in range(EVENTS):
        what, changes = causes[number % len(causes)]
        objects = [(change, obj) for change, obj in changes(number // len(causes))]
        started, cpu = time.perf_counter(), time.process_time()
        for change, obj in objects:
            state.fold(Observed(seq=LATE + number, resource=kinds.of(obj).resource, change=change, object=obj))
        driven = drive(state, profile, 10 + number, NOW + 10 + number / 100)
        walls.append(time.perf_counter() - started)
        cpus.append(time.process_time() - cpu)
        holds.append(driven.longest_hold)
        by_cause.setdefault(what, []).append(cpus[-1])
    return {
        "nodes": nodes,
        "pods": pods,
        "waiting_groups": WAITING,
        "ms_p50": _ms(percentile(walls, 0.5)),
        "ms_p99": _ms(percentile(walls, 0.99)),
        "cpu_ms_p50": _ms(percentile(cpus, 0.5)),
        "cpu_ms_p99": _ms(percentile(cpus, 0.99)),
        "cpu_ms_by_cause": {
            what: [_ms(percentile(found, 0.5)), _ms(max(found))] for what, found in sorted(by_cause.items())
        },
        "longest_hold_ms": _ms(max(holds)),
    }


OVERLAPPING = 40
"""One event in so many meets a snapshot: one of 0.2 s every 10 s is a fiftieth of the time."""


def answers(nodes: int, pods: int) -> dict[str, Any]:
    """Measure questions: a snapshot, cycles that answer one, and events while parts of a snapshot are encoded."""
    state, workload = full(nodes, pods)
    profile = default_profile()
    for number in range(1, 6):
        drive(state, profile, number, NOW + number)
    held = _held([*workload.running(), *workload.waiting(0, WAITING)])
    job = next(job for job in state.ledger.jobs.values() if job.key.endswith("/wait-0"))
    questions: dict[str, Callable[[CycleSession], Iterator[None]] | None] = {
        "none": None,
        "job": lambda session: about_job(session, job),
        "queue": lambda session: about_queue(session, job.queue),
    }
    cycles: dict[str, list[Driven]] = {what: [] for what in questions}
    for number in range(3 * QUIET):
        what = list(questions)[number % 3]
        cycles[what].append(drive(state, profile, 6 + number, NOW + 6 + number, inspect=questions[what]))
    return {
        "nodes": nodes,
        "pods": pods,
        "snapshot": _snapshot(state, held),
        "quiet_cycle": {
            what: {
                "ms_p50": _ms(percentile([each.seconds for each in some], 0.5)),
                "cpu_ms_p50": _ms(percentile([each.cpu_seconds for each in some], 0.5)),
                "longest_hold_ms": _ms(max(each.longest_hold for each in some)),
            }
            for what, some in cycles.items()
        },
        "event": _events_with_snapshots(state, profile, workload, held),
    }


def _held(objects: list[ApiObject]) -> list[Held]:
    by_kind: dict[kinds.Kind, list[ApiObject]] = {}
    for obj in objects:
        by_kind.setdefault(kinds.of(obj), []).append(obj)
    return list(by_kind.items())


def _snapshot(state: ClusterState, held: list[Held]) -> dict[str, Any]:
    """Measure whole snapshots, one after the other."""
    remembered, totals, cpus, longest, size = [], [], [], 0.0, 0
    for _ in range(5):
        started, cpu, size = time.perf_counter(), time.process_time(), 0
        memory = remember(state, now=NOW)
        remembered.append(time.perf_counter() - started)
        before = time.perf_counter()
        for part in encoded(held, memory):
            size += len(part)
            now = time.perf_counter()
            longest, before = max(longest, now - before), now
        totals.append(time.perf_counter() - started)
        cpus.append(time.process_time() - cpu)
    return {
        "ms": _ms(percentile(totals, 0.5)),
        "cpu_ms": _ms(percentile(cpus, 0.5)),
        "megabytes": round(size / 1e6, 1),
        "memory_ms": _ms(percentile(remembered, 0.5)),
        "longest_part_ms": _ms(longest),
    }


def _events_with_snapshots(
    state: ClusterState, profile: Profile, workload: FullCluster, held: list[Held]
) -> dict[str, float]:
    """Measure events as `event` does, every second one in a series where some meet a snapshot."""
    causes = _causes(workload)
    walls: dict[str, list[float]] = {"alone": [], "with_snapshots": []}
    cpus: dict[str, list[float]] = {"alone": [], "with_snapshots": []}
    memory = SchedulerMemory(at=NOW)
    for number in range(2 * EVENTS):
        series = "with_snapshots" if number % 2 else "alone"
        meets = series == "with_snapshots" and number // 2 % OVERLAPPING == 0
        parts = encoded(held, memory) if meets else None
        turn, cause = divmod(number // 2, len(causes))
        objects = [(change, obj) for change, obj in causes[cause][1](2 * turn + number % 2)]
        started, cpu = time.perf_counter(), time.process_time()
        for change, obj in objects:
            state.fold(Observed(seq=LATE + number, resource=kinds.of(obj).resource, change=change, object=obj))
        between = None if parts is None else partial(next, parts, None)
        drive(state, profile, 200 + number, NOW + 200 + number / 100, between=between)
        walls[series].append(time.perf_counter() - started)
        cpus[series].append(time.process_time() - cpu)
    return {
        f"{series}_{what}_{name}": _ms(percentile(found, part))
        for series in walls
        for what, found in (("ms", walls[series]), ("cpu_ms", cpus[series]))
        for name, part in (("p50", 0.5), ("p99", 0.99))
    }


_Changes = Callable[[int], Iterator[tuple[Change, ApiObject]]]


def _causes(workload: FullCluster) -> list[tuple[str, _Changes]]:
    nodes = list(workload.node_objects())
    running = [obj for obj in workload.running() if isinstance(obj, Pod)]

    def ended(number: int) -> Iterator[tuple[Change, ApiObject]]:
        pod = running[number * 97]
        yield Change.CHANGED, msgspec.structs.replace(pod, status=PodStatus(phase="Succeeded"))

    def gone(number: int) -> Iterator[tuple[Change, ApiObject]]:
        yield Change.GONE, running[number * 97 + 1]

    def pod(number: int) -> Iterator[tuple[Change, ApiObject]]:
        yield Change.APPEARED, waiting_pod(running[number], 2 * number, 10_000 + number)

    def group(number: int) -> Iterator[tuple[Change, ApiObject]]:
        for obj in workload.waiting(WAITING + 2 * number, 1):
            yield Change.APPEARED, obj

    def node(number: int) -> Iterator[tuple[Change, ApiObject]]:
        old = nodes[number]
        meta = msgspec.structs.replace(old.metadata, labels={**old.metadata.labels, "changed": "yes"})
        yield Change.CHANGED, msgspec.structs.replace(old, metadata=meta)

    return [("pod ended", ended), ("pod gone", gone), ("pod appeared", pod), ("group appeared", group), ("node", node)]


def _ms(seconds: float) -> float:
    return round(1000 * seconds, 2)
