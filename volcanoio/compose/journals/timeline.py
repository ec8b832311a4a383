"""Timeline of a job: what happened to it from its submission to its end, and why.

From a journal it is exact: every entry has the number of its event, its cycle and the chain of causes.
`live_timeline` makes one from a cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec

from volcanoio.bus.journal import Causes, JournalError, read_lines
from volcanoio.bus.records import Codec, CodecError
from volcanoio.bus.records import Decided as DecidedRecord
from volcanoio.framework import decisions
from volcanoio.framework.arguments import pluralize
from volcanoio.framework.effects import Patch
from volcanoio.framework.effects import Record as EventEffect
from volcanoio.framework.events import Answered, Change, EffectFailed, Event, Observed, Synced, TimerFired
from volcanoio.framework.scheduling_effects import BindBatch, Evict
from volcanoio.framework.scheduling_events import BindDone, BindRefused, CycleOpened, Decided
from volcanoio.model import kinds, names
from volcanoio.model.batch import Job
from volcanoio.model.core import Pod
from volcanoio.model.scheduling import PodGroup, PodGroupPhase

PROCESSES = ("controllers", "scheduler")
"""Processes whose journals a timeline is made of, by the name of their directories."""
_GROUPED_SECONDS = 1.0
"""Time within which equal entries about several pods are shown as one."""


class UnknownJobError(Exception):
    """No job or PodGroup of that name is known; the message contains the next step."""


class EntryKind(StrEnum):
    """What an entry is about."""

    SUBMITTED = "submitted"
    DEFAULTED = "defaulted"
    GROUPED = "grouped"
    ENQUEUED = "enqueued"
    WAITING = "waiting"
    CREATED = "created"
    BOUND = "bound"
    REFUSED = "refused"
    STARTED = "started"
    ENDED = "ended"
    EVICTED = "evicted"
    DELETED = "deleted"
    ACTION = "action"
    PHASE = "phase"
    NOTE = "note"
    REMOVED = "removed"


_ABOUT_PODS = {
    EntryKind.CREATED: "created",
    EntryKind.BOUND: "bound",
    EntryKind.REFUSED: "refused by the API server",
    EntryKind.STARTED: "started",
    EntryKind.ENDED: "ended",
    EntryKind.EVICTED: "evicted",
    EntryKind.DELETED: "deleted",
}
"""Kinds of entries about pods, and how they are described."""


class Cause(msgspec.Struct, frozen=True, rename="camel"):
    """An event that led to an entry: its number in the journal of the same process, and what it was."""

    seq: int
    text: str


class Entry(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One step of a timeline.

    `at` is in epoch seconds. `detail` is the rest of the sentence after the kind; `pods` and `nodes` are those it is
    about, `profits` the pods for which one was evicted. From a journal, `process`, `run` (start of the process, from
    1), `seq` and `cycle` (0 if none) identify the event, and `causes` lead to it, the external one first.
    """

    at: float
    kind: EntryKind
    detail: str = ""
    pods: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    profits: tuple[str, ...] = ()
    process: str = ""
    run: int = 0
    seq: int = 0
    cycle: int = 0
    causes: tuple[Cause, ...] = ()

    @property
    def text(self) -> str:
        """The entry as a sentence without subject, such as `4 pods bound to 2 nodes`."""
        if (verb := _ABOUT_PODS.get(self.kind)) is not None:
            subject = self.pods[0] if len(self.pods) == 1 else pluralize(len(self.pods), "pod")
            if self.kind is EntryKind.BOUND and self.nodes:
                where = self.nodes[0] if len(self.nodes) == 1 else pluralize(len(self.nodes), "node")
                verb = f"{verb} to {where}"
            detail = self.detail + (f", for {', '.join(self.profits)}" if self.profits else "")
            return f"{subject} {verb}{detail and f': {detail}'}"
        if self.pods:
            return f"{self.pods[0] if len(self.pods) == 1 else pluralize(len(self.pods), 'pod')}: {self.detail}"
        return self.detail or self.kind


class Timeline(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The entries about one job by time. `source` is `journal` or `cluster`; `uid` is that of the Job or PodGroup.

    `earlier` counts jobs of the same name that the journal contains too; only the last one is shown.
    """

    job: str
    uid: str
    source: str
    entries: tuple[Entry, ...]
    earlier: int = 0


def grouped(entries: Iterable[Entry]) -> list[Entry]:
    """Return entries in which pods to which the same happened within a second are counted together."""
    result: list[Entry] = []
    places: dict[tuple[Any, ...], int] = {}
    for entry in entries:
        key = (entry.kind, entry.detail, entry.process, entry.run, entry.cycle)
        place = places.get(key)
        if entry.pods and place is not None and entry.at - result[place].at <= _GROUPED_SECONDS:
            first = result[place]
            nodes = tuple(dict.fromkeys((*first.nodes, *entry.nodes)))
            profits = tuple(dict.fromkeys((*first.profits, *entry.profits)))
            pods = (*first.pods, *entry.pods)
            result[place] = msgspec.structs.replace(first, pods=pods, nodes=nodes, profits=profits)
            continue
        places[key] = len(result)
        result.append(entry)
    return result


class _Head(msgspec.Struct):
    """The fields by which events are found without decoding them completely."""

    type: str
    seq: int = 0
    cause: int = 0


class _Line(msgspec.Struct):
    record: str
    event: _Head | None = None
    starts: bool = False


@dataclass(slots=True)
class _PodSeen:
    phase: str = ""
    node: str = ""
    restarts: int = 0
    deleting: bool = False


@dataclass(slots=True)
class _Life:
    """One job of the name: entries so far, with the seq of their cause."""

    uid: str
    entries: list[tuple[Entry, int]] = field(default_factory=list)
    pods: dict[str, _PodSeen] = field(default_factory=dict)
    phase: str = ""
    began: float = 0.0
    last_note: str = ""


@dataclass(slots=True)
class _At:
    """Where the reader is: process, its start, and the event with its cycle."""

    process: str
    run: int = 0
    seq: int = 0
    time: float = 0.0
    cycle: int = 0


class _JobFold:
    """Fold of both journals for one job: events of the controllers first, then those of the scheduler."""

    def __init__(self, name: str, namespace: str, processes: Sequence[str]) -> None:
        self._name, self._namespace = name, namespace
        self._key = f"{namespace}/{name}"
        self._pods_from, self._binds_from = processes[0], processes[-1]
        self._phase_causes: dict[str, int] = {}
        self._bind_cycles: dict[int, int] = {}
        self.lives: dict[str, _Life] = {}
        self._groups: dict[str, _Life] = {}
        self._current: _Life | None = None

    def record(self, at: _At, record: Any) -> None:
        """Fold what one line contains."""
        match record:
            case DecidedRecord(actor="job-controller", key=self._key):
                self._controller_decided(at, record)
            case Observed():
                self._observed(at, record)
            case Answered(controller="job-controller", key=self._key) if self._current is not None:
                if text := _answer_text(record):
                    self._add(self._current, at, EntryKind.ACTION, text, cause=record.cause)
            case Decided():
                self._scheduler_decided(at, record)
            case BindDone(group=group) if life := self._groups.get(group):
                at.cycle = self._bind_cycles.get(record.cause, 0)
                self._add(life, at, EntryKind.BOUND, cause=record.cause, pods=(record.name,), nodes=(record.node,))
                at.cycle = 0
            case BindRefused(group=group) if life := self._groups.get(group):
                text, where = record.message or record.reason, {"pods": (record.name,), "nodes": (record.node,)}
                self._add(life, at, EntryKind.REFUSED, text, cause=record.cause, **where)
            case _:
                pass

    def _add(self, life: _Life, at: _At, kind: EntryKind, detail: str = "", *, cause: int = 0, **where: Any) -> None:
        where |= {"process": at.process, "run": at.run, "seq": at.seq, "cycle": at.cycle}
        life.entries.append((Entry(at=at.time, kind=kind, detail=detail, **where), cause))

    def _observed(self, at: _At, event: Observed) -> None:
        match event.object:
            case Job(metadata=meta) if meta.key == self._key:
                self._job(at, event.object, event.change)
            case PodGroup(metadata=meta) if meta.namespace == self._namespace:
                self._group(at, event.object, event.change)
            case Pod(metadata=meta) if meta.namespace == self._namespace and (life := self._life_of(event.object)):
                self._pod(at, life, event.object, gone=event.change is Change.GONE)
            case _:
                pass

    def _life_of(self, pod: Pod) -> _Life | None:
        group = pod.metadata.annotations.get(names.GROUP_NAME, "")
        if life := self._groups.get(f"{self._namespace}/{group}"):
            return life
        return next((self.lives[each.uid] for each in pod.metadata.owner_references if each.uid in self.lives), None)

    def _job(self, at: _At, job: Job, change: Change) -> None:
        life = self.lives.get(job.metadata.uid)
        if life is None:
            life = self.lives[job.metadata.uid] = _Life(job.metadata.uid, began=at.time)
            self._add(life, at, EntryKind.SUBMITTED, submitted_text(job))
        self._current = life
        phase, state = job.status.state.phase, job.status.state
        if phase and phase != life.phase:
            text = _phase_text(life.phase, job)
            self._add(life, at, EntryKind.PHASE, text, cause=self._phase_causes.pop(state.phase, 0))
            life.phase = phase
        if change is Change.GONE:
            self._add(life, at, EntryKind.REMOVED, "job deleted")

    def _group(self, at: _At, group: PodGroup, change: Change) -> None:
        owners = [each for each in group.metadata.owner_references if each.name == self._name]
        if not owners and group.metadata.name != self._name:
            return
        uid = owners[0].uid if owners else group.metadata.uid
        life = self.lives.get(uid)
        if life is None:
            life = self.lives[uid] = _Life(uid, began=at.time)
        if self._groups.get(group.metadata.key) is not life and change is not Change.GONE:
            self._groups[group.metadata.key] = life
            if at.process == self._pods_from:
                text = f"PodGroup {group.metadata.name} created: {minimum_text(group)}"
                self._add(life, at, EntryKind.GROUPED, text)

    def _pod(self, at: _At, life: _Life, pod: Pod, *, gone: bool) -> None:
        if at.process != self._pods_from:
            return
        name, phase, node = pod.metadata.name, pod.status.phase, pod.spec.node_name
        seen = life.pods.get(pod.metadata.uid)
        if seen is None:
            seen = life.pods[pod.metadata.uid] = _PodSeen()
            self._add(life, at, EntryKind.CREATED, pods=(name,))
        if node and not seen.node:
            seen.node = node
            if self._binds_from == at.process == "controllers":
                self._add(life, at, EntryKind.BOUND, pods=(name,), nodes=(node,))
        if phase != seen.phase:
            if phase == "Running":
                self._add(life, at, EntryKind.STARTED, pods=(name,), nodes=(node,))
            elif phase in ("Succeeded", "Failed"):
                self._add(life, at, EntryKind.ENDED, end_text(pod), pods=(name,), nodes=(node,))
            seen.phase = phase
        if (restarts := sum(each.restart_count for each in pod.status.container_statuses)) != seen.restarts:
            seen.restarts = restarts
            self._add(life, at, EntryKind.NOTE, restart_text(pod), pods=(name,), nodes=(node,))
        if (gone or pod.metadata.deletion_timestamp) and not seen.deleting:
            seen.deleting = True
            self._add(life, at, EntryKind.DELETED, disruption_text(pod), pods=(name,))

    def _controller_decided(self, at: _At, record: DecidedRecord) -> None:
        """Fold a decision of the job controller: the causes of phases, and what it recorded about the job."""
        for effect in (effect for stage in record.effects for effect in stage):
            if effect.get("effect") == "Patch" and effect.get("resource") == kinds.JOB.resource:
                patch = effect.get("patch")
                state = (patch.get("status") or {}).get("state") if isinstance(patch, dict) else None
                if state and "phase" in state:
                    self._phase_causes[state["phase"]] = record.cause
            elif effect.get("effect") == "Record" and self._current is not None:
                note = f"{effect['reason']}: {effect['message'].strip()}"
                kind = EntryKind.ACTION if effect["reason"] in ("ExecuteAction", "CommandIssued") else EntryKind.NOTE
                self._note(self._current, at, kind, note, record.cause)

    def _note(self, life: _Life, at: _At, kind: EntryKind, text: str, cause: int) -> None:
        if text != life.last_note:
            life.last_note = text
            self._add(life, at, kind, text, cause=cause)

    def _scheduler_decided(self, at: _At, event: Decided) -> None:
        at.cycle = event.cycle
        for effect in event.decisions:
            match effect:
                case BindBatch(group=group) if group in self._groups:
                    self._bind_cycles[event.seq] = event.cycle
                case Evict(group=group) if life := self._groups.get(group):
                    self._add(life, at, EntryKind.EVICTED, cause=event.cause, **_eviction(event, effect))
                case Patch(resource=kinds.POD_GROUP.resource, namespace=namespace, name=name, patch=patch):
                    life = self._groups.get(f"{namespace}/{name}")
                    if life and (patch.get("status") or {}).get("phase") == PodGroupPhase.INQUEUE:
                        text = f"admitted to its queue after {at.time - life.began:.1f} s"
                        self._add(life, at, EntryKind.ENQUEUED, text, cause=event.cause)
                case EventEffect(type="Warning", regarding=about) if about.kind == kinds.POD_GROUP.kind:
                    if life := self._groups.get(f"{about.namespace}/{about.name}"):
                        self._note(life, at, EntryKind.WAITING, f"waits: {effect.message}", event.cause)
                case _:
                    pass
        at.cycle = 0


def _eviction(event: Decided, evict: Evict) -> dict[str, Any]:
    """Return the fields of an entry: the action, and the pods that the same decisions nominate on the victim's node."""
    profits = [
        f"{each.namespace}/{each.name}"
        for each in event.decisions
        if isinstance(each, Patch)
        and each.resource == kinds.POD.resource
        and isinstance(each.patch, dict)
        and (each.patch.get("status") or {}).get("nominatedNodeName") == evict.node
    ]
    return {
        "detail": f"by action {evict.reason}",
        "pods": (evict.name,),
        "nodes": (evict.node,),
        "profits": tuple(profits),
    }


def journal_timeline(directory: Path, name: str, namespace: str = "default") -> Timeline:
    """Return the timeline of a Job, or of a PodGroup without Job, from the directory of a journal.

    Raises JournalError if it cannot be read and UnknownJobError for a job that it does not contain.
    """
    parts = {process: directory / process for process in PROCESSES if (directory / process).is_dir()}
    if not parts:
        wanted = " and ".join(PROCESSES)
        raise JournalError(f"{directory}: no journal; give the directory of --journal, which contains {wanted}")
    fold = _JobFold(name, namespace, list(parts))
    causes = {process: _read_part(path, process, fold, name.encode()) for process, path in parts.items()}
    if not fold.lives:
        msg = f"{directory} contains no job {namespace}/{name}; name its namespace with -n"
        raise UnknownJobError(msg)
    life = list(fold.lives.values())[-1]
    order = {EntryKind.SUBMITTED: 0, EntryKind.REMOVED: 2}
    ordered = sorted(life.entries, key=lambda each: (each[0].at, order.get(each[0].kind, 1)))
    entries = _with_causes(parts, ordered, causes)
    return Timeline(
        job=f"{namespace}/{name}",
        uid=life.uid,
        source="journal",
        entries=entries,
        earlier=len(fold.lives) - 1,
    )


def _read_part(path: Path, process: str, fold: _JobFold, needle: bytes) -> list[Causes]:
    """Fold the lines that contain the job's name; return the causes of all events, for each start of the process."""
    codec, decoder = Codec(lenient=True), msgspec.json.Decoder(_Line)
    at = _At(process)
    causes: list[Causes] = []
    for position, line in read_lines(path):
        try:
            head = decoder.decode(line)
            if head.record == "Opened" and (head.starts or not causes):
                at.run += 1
                causes.append(Causes())
            if (event := head.event) is not None:
                causes[-1].add(event.seq, event.cause)
            if needle not in line:
                continue
            record: Any = codec.decode(line)
        except (CodecError, msgspec.DecodeError, IndexError) as error:
            raise JournalError(f"{path / position.segment}, byte {position.offset}: {error}") from error
        if event is not None:
            record = record.event
            at.seq, at.time = record.seq, record.at
        fold.record(at, record)
    return causes


def _with_causes(
    parts: Mapping[str, Path], entries: Sequence[tuple[Entry, int]], causes: Mapping[str, list[Causes]]
) -> tuple[Entry, ...]:
    """Return the entries with their chains of causes, which are read from the journal again."""
    chains = [causes[entry.process][entry.run - 1].chain(cause) for entry, cause in entries]
    texts: dict[tuple[str, int, int], str] = {}
    for process, path in parts.items():
        wanted = {
            (entry.run, seq)
            for (entry, _), chain in zip(entries, chains, strict=True)
            if entry.process == process
            for seq in chain
        }
        texts |= {(process, *place): text for place, text in _event_texts(path, wanted)}
    return tuple(
        msgspec.structs.replace(
            entry, causes=tuple(Cause(seq, texts.get((entry.process, entry.run, seq), "")) for seq in chain)
        )
        for (entry, _), chain in zip(entries, chains, strict=True)
    )


def _event_texts(path: Path, wanted: set[tuple[int, int]]) -> Iterator[tuple[tuple[int, int], str]]:
    """Yield the descriptions of the events with these runs and seqs."""
    codec, decoder, run = Codec(lenient=True), msgspec.json.Decoder(_Line), 0
    for _, line in read_lines(path) if wanted else ():
        head = decoder.decode(line)
        run += head.record == "Opened" and (head.starts or not run)
        if head.event is not None and (run, head.event.seq) in wanted:
            record: Any = codec.decode(line)
            yield (run, head.event.seq), event_text(record.event)


def event_text(event: Event) -> str:
    """Return an event in a few words: `pod default/a-0 changed: Failed, exit code 3`."""
    match event:
        case Observed(object=Pod() as pod, change=change):
            state = end_text(pod) or (f"{pod.status.phase} on {pod.spec.node_name}" if pod.spec.node_name else "")
            return f"pod {pod.metadata.key} {change}{state and f': {state}'}"
        case Observed(resource=resource, change=change):
            return f"{resource.partition('.')[0]} {event.obj.metadata.key} {change}"
        case Synced(resource=resource):
            return f"{resource} listed"
        case CycleOpened(cycle=cycle):
            return f"cycle {cycle}"
        case Decided(cycle=cycle):
            return f"decisions of cycle {cycle}"
        case TimerFired(name=name, key=key):
            return f"timer {name} of {key}"
        case Answered(policy=policy, key=key):
            return f"answer of {f'policy {policy}' if policy else 'the policies'} about {key}"
        case EffectFailed(key=key, code=code, reason=reason):
            return f"write about {key} failed: {code} {reason}".rstrip()
        case _:
            subject = getattr(event, "name", "") or getattr(event, "key", "")
            return f"{type(event).__name__} {subject}".rstrip()


def submitted_text(job: Job) -> str:
    """Return the queue, pods and tasks of a new Job."""
    pods = sum(task.replicas for task in job.spec.tasks)
    tasks = ", ".join(f"{task.name} {task.replicas}" for task in job.spec.tasks)
    needed = f"; {job.spec.min_available} needed together" if job.spec.min_available else ""
    return f"submitted to queue {job.spec.queue or names.DEFAULT_QUEUE}: {pluralize(pods, 'pod')} ({tasks}){needed}"


def minimum_text(group: PodGroup) -> str:
    """Return what a PodGroup needs at least."""
    amounts = (group.spec.min_resources or {}).items()  # with the keys of quotas, which repeat the amounts
    plain = [f"{name} {amount}" for name, amount in amounts if name != "pods" and "/" not in name and "." not in name]
    requested = ", ".join(plain)
    return f"at least {pluralize(group.spec.min_member, 'pod')}{requested and f', with {requested}'}"


def _phase_text(before: str, job: Job) -> str:
    state, text = job.status.state, f"{before or 'new'} → {job.status.state.phase}"
    if job.status.retry_count:
        text += f", retry {job.status.retry_count} of {job.spec.max_retry or 3}"
    reason = ": ".join(filter(None, (state.reason, state.message)))
    return f"{text}: {reason}" if reason else text


def end_text(pod: Pod) -> str:
    """Return how a pod ended: its phase, reason, exit codes; "" if it did not."""
    if (phase := pod.status.phase) not in ("Succeeded", "Failed"):
        return ""
    ends = [each.state.terminated for each in pod.status.container_statuses if each.state.terminated]
    parts = [phase, pod.status.reason]
    parts += [f"exit code {end.exit_code}" for end in ends if end.exit_code]
    parts += [end.reason for end in ends if end.reason not in ("Completed", "Error", pod.status.reason)]
    return ", ".join(dict.fromkeys(filter(None, parts)))


def restart_text(pod: Pod) -> str:
    """Return how often containers were restarted, and how they ended before."""
    parts = []
    for each in pod.status.container_statuses:
        if each.restart_count:
            last = each.last_state.terminated
            ended = f" after exit code {last.exit_code}" if last else ""
            parts.append(f"container {each.name} restarted{ended} ({each.restart_count} times so far)")
    return ", ".join(parts)


def disruption_text(pod: Pod) -> str:
    """Return the reason of a pod's condition DisruptionTarget, "" without one."""
    for each in pod.status.conditions:
        if each.type == "DisruptionTarget" and each.status == "True":
            return ": ".join(filter(None, (each.reason, each.message)))
    return ""


def _answer_text(event: Answered) -> str:
    """Return what a lifecycle policy decided; "" if all abstained."""
    by = f"policy {event.policy}: "
    match event.decision:
        case decisions.Act(action=action, after=after):
            return f"{by}{action}{f' in {after:g} s' if after else ''}"
        case decisions.Hold(reason=reason):
            return f"{by}hold, {reason}"
        case decisions.Override(task=task, action=action, reason=reason):
            return f"{by}other resources for task {task}, then {action}{reason and f': {reason}'}"
        case _:
            return ""
