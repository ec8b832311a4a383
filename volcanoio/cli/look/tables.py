"""Rows about jobs, queues, nodes, pods and events, as cells of text; no I/O.

Objects are given by kind and key, as informers keep them. The functions return cells by the key of the object that a
row is about, in the order of printing; ages are relative to `now`.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import NamedTuple, TypeAlias, TypeVar

from volcanoio.cli.output import phase_text
from volcanoio.compose.live.job_pods import pod_order
from volcanoio.engine.accounting.finished_jobs import owner_of
from volcanoio.engine.scheduling.cluster.native_groups import as_pod_group, status_of
from volcanoio.engine.scheduling.cluster.pod_fields import native_key
from volcanoio.engine.scheduling.diagnosis.codes import NO_POD_GROUP
from volcanoio.model import kinds, names
from volcanoio.model.base import ApiObject
from volcanoio.model.batch import FINISHED_PHASES, Job, JobPhase
from volcanoio.model.core import Event, Node, Pod
from volcanoio.model.kinds import Kind
from volcanoio.model.printing.ages import since
from volcanoio.model.printing.pods import NONE, view
from volcanoio.model.resources import CPU, MEMORY, PODS, Amounts, add, amount_text, pod_amounts, stored_amounts
from volcanoio.model.scheduling import PodGroup, PodGroupPhase, Queue
from volcanoio.model.workloads import NativePodGroup

Object = TypeVar("Object", bound=ApiObject)
Objects: TypeAlias = Mapping[Kind, Mapping[str, ApiObject]]
Cells: TypeAlias = tuple[str, ...]
Rows: TypeAlias = dict[str, Cells]

ENDED = frozenset({*FINISHED_PHASES, JobPhase.ABORTED})
"""Phases of jobs that change no more by themselves."""
_POD_ENDED = ("Succeeded", "Failed")


class Table(NamedTuple):
    """One kind of listing: its columns, of which only -o wide prints the last `wide`, and its rows."""

    kind: Kind
    header: Cells
    wide: int
    rows: Callable[[Objects, datetime], Rows]

    @property
    def namespaced(self) -> Table:
        """The table with a column for the namespace."""
        if not self.kind.namespaced:
            return self

        def rows(objects: Objects, now: datetime) -> Rows:
            found = self.rows(objects, now)
            return {key: (key.partition("/")[0], *found[key]) for key in found}

        return self._replace(header=("NAMESPACE", *self.header), rows=rows)


def of_kind(objects: Objects, kind: Kind, struct: type[Object]) -> Iterator[tuple[str, Object]]:
    """Yield the objects of a kind by key, sorted; none if the kind was not read."""
    for key, obj in sorted(objects.get(kind, {}).items()):
        assert isinstance(obj, struct)
        yield key, obj


def phase_of(job: Job) -> str:
    """Return the phase of a job; a new one is Pending."""
    return job.status.state.phase or JobPhase.PENDING


def reason_of(objects: Objects, job: Job) -> tuple[str, str]:
    """Return why a job waits, or why it ended, as code and message.

    Both are empty if there is nothing to explain, or if PodGroups were not read.
    """
    phase = phase_of(job)
    if phase in ENDED:
        return job.status.state.reason, job.status.state.message
    if kinds.POD_GROUP not in objects or (phase != JobPhase.PENDING and not job.status.pending):
        return "", ""
    group = objects[kinds.POD_GROUP].get(f"{job.metadata.key}-{job.metadata.uid}")
    if not isinstance(group, PodGroup):
        return NO_POD_GROUP, "its PodGroup does not exist yet"
    for condition in reversed(group.status.conditions):
        if condition.type == "Unschedulable" and condition.status == "True":
            return condition.reason, condition.message
    return "", ""


def placed_pods(job: Job) -> int:
    """Return the number of pods of a job that run or succeeded."""
    return job.status.running + job.status.succeeded


def gang_bar(placed: int, minimum: int, width: int = 10) -> str:
    """Draw `######.... 3/5`: placed pods, of those that must run together."""
    filled = min(placed, minimum) * width // minimum if minimum > 0 else width
    return f"{'#' * filled}{'.' * (width - filled)} {placed}/{minimum}"


JOB_HEADER = (
    "JOB", "OWNER", "PHASE", "GANG", "R/P/S/F", "QUEUE", "PRIORITY", "AGE", "NODELIST(REASON)", "MESSAGE",
)  # fmt: skip


def job_rows(objects: Objects, now: datetime) -> Rows:
    """Return the rows of jobs. Nodes are those of the pods, `…` if pods were not read."""
    nodes: defaultdict[str, set[str]] = defaultdict(set)
    for _, pod in of_kind(objects, kinds.POD, Pod):
        if pod.spec.node_name and pod.status.phase not in _POD_ENDED:
            job_name = pod.metadata.labels.get(names.JOB_NAME, "")
            nodes[f"{pod.metadata.namespace}/{job_name}"].add(pod.spec.node_name)
    has_pods = kinds.POD in objects
    rows: Rows = {}
    for key, job in of_kind(objects, kinds.JOB, Job):
        used = fold_names(nodes[key]) if has_pods or not job.status.running else "…"
        rows[key] = _job_cells(job, reason_of(objects, job), used, now)
    return rows


def _job_cells(job: Job, reason: tuple[str, str], nodes: str, now: datetime) -> Cells:
    status, meta = job.status, job.metadata
    code, message = reason
    return (
        meta.name,
        owner_of(job) or "-",
        phase_text(phase_of(job)),
        f"{placed_pods(job)}/{job.spec.min_available}",
        f"{status.running}/{status.pending}/{status.succeeded}/{status.failed}",
        job.spec.queue,
        job.spec.priority_class_name or "-",
        since(meta.creation_timestamp, now),
        " ".join(filter(None, (nodes, f"({code})" if code else ""))) or "-",
        message,
    )


JOBS = Table(kinds.JOB, JOB_HEADER, 1, job_rows)

GROUP_HEADER = ("PODGROUP", "PHASE", "MIN", "QUEUE", "PRIORITY", "AGE", "MESSAGE")


def group_rows(objects: Objects, now: datetime) -> Rows:
    """Return the rows of PodGroups that no Job owns, and of the native groups that the scheduler has."""
    rows: Rows = {}
    for key, group in of_kind(objects, kinds.POD_GROUP, PodGroup):
        if not any(kinds.owner_names(kinds.JOB, group.metadata)):
            rows[key] = _group_cells(group.metadata.name, group, now)
    for _, native in of_kind(objects, kinds.NATIVE_POD_GROUP, NativePodGroup):
        if native.queue:
            key = native_key(native.metadata.namespace, native.metadata.name)
            rows[key] = _group_cells(key.partition("/")[2], as_pod_group(native, native.queue, status_of(native)), now)
    return rows


def _group_cells(name: str, group: PodGroup, now: datetime) -> Cells:
    spec, status = group.spec, group.status
    newest = max(status.conditions, key=lambda one: one.last_transition_time or "", default=None)
    return (
        name,
        phase_text(status.phase or PodGroupPhase.PENDING),
        str(spec.min_member),
        spec.queue or names.DEFAULT_QUEUE,
        spec.priority_class_name or "-",
        since(group.metadata.creation_timestamp, now),
        newest.message if newest is not None and newest.type == "Unschedulable" else "",
    )


GROUPS = Table(kinds.POD_GROUP, GROUP_HEADER, 0, group_rows)

_NUMBERED = re.compile(r"(.*?)(\d+)")


def fold_names(given: Iterable[str]) -> str:
    """Return names with common beginnings combined, as Slurm does: `node-[1-3,7],gpu-a`."""
    numbers: defaultdict[str, list[str]] = defaultdict(list)
    parts = []
    for name in sorted(given):
        if match := _NUMBERED.fullmatch(name):
            numbers[match[1]].append(match[2])
        else:
            parts.append(name)
    for start, found in numbers.items():
        spans = list(_spans(sorted(found, key=lambda text: (int(text), text))))
        folded = f"{start}{spans[0]}" if len(spans) == 1 and "-" not in spans[0] else f"{start}[{','.join(spans)}]"
        parts.append(folded)
    return ",".join(sorted(parts))


def _spans(numbers: list[str]) -> Iterator[str]:
    """Yield runs of consecutive numbers as `1-3`; numbers with leading zeros are combined if they are equally long."""
    first = last = numbers[0]
    for number in numbers[1:]:
        if int(number) == int(last) + 1 and (len(number) == len(last) or last[0] != "0"):
            last = number
            continue
        yield first if first == last else f"{first}-{last}"
        first = last = number
    yield first if first == last else f"{first}-{last}"


BAR_WIDTH = 14


def share_bar(used: int, deserved: int, guarantee: int, limit: int, width: int = BAR_WIDTH) -> str:
    """Draw `[###g##|...]`: what is used, up to a limit, with marks at the guarantee (g) and the deserved amount (|)."""
    scale = max(limit, used, deserved, guarantee)
    if not scale:
        return ""
    filled = used * width // scale
    cells = ["#"] * filled + ["."] * (width - filled)
    for amount, mark in ((guarantee, "g"), (deserved, "|")):
        if amount:
            cells[min(amount * width // scale, width - 1)] = mark
    return f"[{''.join(cells)}]"


QUEUE_HEADER = (
    "QUEUE", "STATE", "WEIGHT", "CPU USED/DESERVED/CAP", "MEMORY", "EXTENDED", "RUN", "PEND", "INQ", "SHARE",
    "GUARANTEE", "PARENT", "RECLAIMABLE",
)  # fmt: skip


def queue_rows(objects: Objects, now: datetime, *, tree: bool = False) -> Rows:  # noqa: ARG001 - queues show no age
    """Return the rows of queues; as a tree, children follow their parents and are indented."""
    queues = dict(of_kind(objects, kinds.QUEUE, Queue))
    total: Amounts = {}
    for _, node in of_kind(objects, kinds.NODE, Node):
        add(total, stored_amounts(node.status.allocatable))
    order = list(_tree(queues)) if tree else [("", name) for name in queues]
    return {name: _queue_cells(queues[name], branch, total) for branch, name in order}


def _tree(queues: Mapping[str, Queue]) -> Iterator[tuple[str, str]]:
    """Yield queues with the branches before their names; those whose parent does not exist come last."""
    children: defaultdict[str, list[str]] = defaultdict(list)
    for name, queue in queues.items():
        if name != names.ROOT_QUEUE:
            children[queue.spec.parent or names.ROOT_QUEUE].append(name)
    seen = set[str]()

    def below(name: str, indent: str) -> Iterator[tuple[str, str]]:
        for at, child in enumerate(children[name], 1):
            if child not in seen:
                seen.add(child)
                last = at == len(children[name])
                yield f"{indent}{'└─ ' if last else '├─ '}", child
                yield from below(child, indent + ("   " if last else "│  "))

    if names.ROOT_QUEUE in queues:
        yield "", names.ROOT_QUEUE
    yield from below(names.ROOT_QUEUE, "")
    for name in queues:  # of a parent that does not exist, or of a circle
        if name not in seen and name != names.ROOT_QUEUE:
            seen.add(name)
            yield "", name
            yield from below(name, "")


def _queue_cells(queue: Queue, branch: str, total: Amounts) -> Cells:
    spec, status = queue.spec, queue.status
    used, deserved, limits = map(stored_amounts, (status.allocated, spec.deserved, spec.capability))
    guarantee = stored_amounts(spec.guarantee.resource)

    def amounts(name: str) -> str:
        shown = [each.get(name) for each in (used, deserved, limits)]
        return "/".join("-" if amount is None else amount_text(name, amount) for amount in (shown[0] or 0, *shown[1:]))

    bar = share_bar(used.get(CPU, 0), deserved.get(CPU, 0), guarantee.get(CPU, 0), limits.get(CPU) or total.get(CPU, 0))
    others = sorted({*used, *deserved, *limits} - {CPU, MEMORY, PODS})
    return (
        f"{branch}{queue.metadata.name}",
        phase_text(status.state or "Open"),
        str(spec.weight),
        f"{bar} {amounts(CPU)}".lstrip(),
        amounts(MEMORY),
        " ".join(f"{name} {amounts(name)}" for name in others) or "-",
        str(status.running),
        str(status.pending),
        str(status.inqueue),
        _share(used, deserved, limits, total),
        " ".join(f"{name} {amount_text(name, amount)}" for name, amount in sorted(guarantee.items())) or "-",
        spec.parent or "-",
        "no" if spec.reclaimable is False else "yes",
    )


def _share(used: Amounts, deserved: Amounts, limits: Amounts, total: Amounts) -> str:
    """Return the largest used part of a resource's deserved amount, without any of its limit, or of the cluster."""
    whole = deserved or limits or total
    shares = [used.get(name, 0) / amount for name, amount in whole.items() if amount]
    return f"{max(shares):.2f}" if shares else "-"


QUEUES = Table(kinds.QUEUE, QUEUE_HEADER, 3, queue_rows)

NODE_HEADER = ("NODE", "STATUS", "PODS", "CPU", "MEMORY", "EXTENDED", "AGE", "TAINTS")


class _NodeUse(NamedTuple):
    """What the pods on one node request."""

    pods: int
    amounts: Amounts


def _uses(objects: Objects) -> Mapping[str, _NodeUse]:
    counts: Counter[str] = Counter()
    amounts: defaultdict[str, Amounts] = defaultdict(dict)
    for pod in objects.get(kinds.POD, {}).values():
        assert isinstance(pod, Pod)
        if pod.spec.node_name and pod.status.phase not in _POD_ENDED:
            counts[pod.spec.node_name] += 1
            add(amounts[pod.spec.node_name], pod_amounts(pod.spec, "requests"))
    return {name: _NodeUse(count, amounts[name]) for name, count in counts.items()}


def node_status(node: Node) -> str:
    """Return Ready or NotReady, with SchedulingDisabled for a cordoned node, as kubectl does."""
    ready = any(each.type == "Ready" and each.status == "True" for each in node.status.conditions)
    return ("Ready" if ready else "NotReady") + (",SchedulingDisabled" if node.spec.unschedulable else "")


def _status_text(status: str) -> str:
    ready, comma, rest = status.partition(",")
    return f"{ready}{comma}{rest}" if comma else phase_text(ready)


def _amount_cells(node_count: int, allocatable: Amounts, use: _NodeUse) -> tuple[str, str, str, str]:
    """Return requested and allocatable pods, cpu, memory and extended resources."""

    def text(name: str) -> str:
        return (
            f"{amount_text(name, use.amounts.get(name, 0))}/{amount_text(name, allocatable.get(name, 0) * node_count)}"
        )

    extended = sorted(name for name in allocatable if "/" in name and allocatable[name])
    pods = f"{use.pods}/{allocatable.get(PODS, 0) * node_count}"
    return pods, text(CPU), text(MEMORY), " ".join(f"{name} {text(name)}" for name in extended) or "-"


def node_rows(objects: Objects, now: datetime) -> Rows:
    """Return the rows of nodes: what their pods request, of what is allocatable."""
    uses, none = _uses(objects), _NodeUse(0, {})
    rows: Rows = {}
    for key, node in of_kind(objects, kinds.NODE, Node):
        cells = _amount_cells(1, stored_amounts(node.status.allocatable), uses.get(key, none))
        taints = ",".join(f"{each.key}={each.value}:{each.effect}" for each in node.spec.taints).replace("=:", ":")
        age = since(node.metadata.creation_timestamp, now)
        rows[key] = (node.metadata.name, _status_text(node_status(node)), *cells, age, taints or "-")
    return rows


NODES = Table(kinds.NODE, NODE_HEADER, 1, node_rows)

NODE_SUMMARY_HEADER = ("STATUS", "NODES", "PODS", "CPU", "MEMORY", "EXTENDED", "NODELIST")


def node_summary_rows(objects: Objects, now: datetime) -> Rows:  # noqa: ARG001 - groups have no age
    """Return one row for all nodes of equal status and size."""
    uses, none = _uses(objects), _NodeUse(0, {})
    groups: defaultdict[tuple[str, tuple[tuple[str, int], ...]], list[str]] = defaultdict(list)
    for key, node in of_kind(objects, kinds.NODE, Node):
        groups[node_status(node), tuple(sorted(stored_amounts(node.status.allocatable).items()))].append(key)
    rows: Rows = {}
    for (status, allocatable), found in sorted(groups.items()):
        summed: Amounts = {}
        for name in found:
            add(summed, uses.get(name, none).amounts)
        use = _NodeUse(sum(uses.get(name, none).pods for name in found), summed)
        cells = _amount_cells(len(found), dict(allocatable), use)
        rows[found[0]] = (_status_text(status), str(len(found)), *cells, fold_names(found))
    return rows


NODE_SUMMARY = Table(kinds.NODE, NODE_SUMMARY_HEADER, 0, node_summary_rows)

POD_HEADER = ("POD", "READY", "STATUS", "RESTARTS", "AGE", "NODE", "JOB", "TASK", "REASON")


def pod_rows(objects: Objects, now: datetime) -> Rows:
    """Return the rows of pods, those of one task in the order of their indices."""
    pods = dict(of_kind(objects, kinds.POD, Pod))
    return {key: _pod_cells(pods[key], now) for key in sorted(pods, key=lambda key: pod_order(pods[key]))}


def _pod_cells(pod: Pod, now: datetime) -> Cells:
    shown = view(kinds.POD.manifest(pod), now)
    labels = pod.metadata.labels
    waits = [each.reason for each in pod.status.conditions if each.type == "PodScheduled" and each.status == "False"]
    return (
        pod.metadata.name,
        shown.ready,
        phase_text(shown.status),
        shown.restarts,
        since(pod.metadata.creation_timestamp, now),
        pod.spec.node_name or NONE,
        labels.get(names.JOB_NAME, "-"),
        labels.get(names.TASK_SPEC, "-"),
        next(filter(None, waits), "-"),
    )


POD_TABLE = Table(kinds.POD, POD_HEADER, 3, pod_rows)

EVENT_HEADER = ("LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE")


def event_time(event: Event) -> str:
    """Return when an event last happened; some writers set only the creation time."""
    return event.last_timestamp or event.first_timestamp or event.metadata.creation_timestamp or ""


def event_rows(objects: Objects, now: datetime) -> Rows:
    """Return the rows of events, the latest last."""
    found = sorted(
        of_kind(objects, kinds.EVENT, Event), key=lambda each: (event_time(each[1]), each[1].metadata.revision)
    )
    return {key: _event_cells(event, now) for key, event in found}


def _event_cells(event: Event, now: datetime) -> Cells:
    seen = since(event_time(event), now)
    if event.count > 1:
        seen += f" (x{event.count} over {since(event.first_timestamp, now)})"
    about = event.involved_object
    return seen, event.type, event.reason, f"{about.kind.lower()}/{about.name}", event.message.strip()


EVENTS = Table(kinds.EVENT, EVENT_HEADER, 0, event_rows)
