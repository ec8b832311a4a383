"""`diagnose`: why each waiting job of a session waits.

It reads what the cycle decided (`Attempts`, the rejections of plugins) and, for jobs that found no node, asks the
filters once more for all nodes. The session must be closed and not undone yet.
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
from heapq import nlargest
from itertools import groupby
from operator import itemgetter

import msgspec
import numpy as np
from numpy.typing import NDArray

from volcanoio.engine.scheduling.cluster.attempts import Precision
from volcanoio.engine.scheduling.cluster.jobs import JobInfo, TaskInfo
from volcanoio.engine.scheduling.cluster.loads import Quantity
from volcanoio.engine.scheduling.diagnosis import codes
from volcanoio.engine.scheduling.diagnosis.codes import CODES, Stage, node_code
from volcanoio.engine.scheduling.session.context import ShapeFit
from volcanoio.engine.scheduling.session.session import CycleSession
from volcanoio.engine.scheduling.status.explanation import UNSETTLED, amount_details, is_held_back, waiting_text
from volcanoio.framework.scheduling.hypernodes import CLUSTER
from volcanoio.framework.scheduling.points import SortKey
from volcanoio.framework.scheduling.verdicts import Vote
from volcanoio.framework.scheduling.views import Shape, TaskStatus
from volcanoio.framework.statuses import with_details
from volcanoio.model.resources import PODS, amount_text
from volcanoio.model.scheduling import PodGroupPhase

Mask = NDArray[np.bool_]
MAX_AHEAD = 5
"""Most jobs that are named as being ahead of one."""


class NodeReason(msgspec.Struct, frozen=True):
    """A reason and the number of nodes that it excludes; a node counts under the first that applies."""

    code: str
    reason: str
    nodes: int


class Shortage(msgspec.Struct, frozen=True):
    """How much of a resource is missing for one more pod on the node with the least missing; Kubernetes quantities."""

    node: str
    resource: str
    requested: str
    free: str
    missing: str


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Why a job waits.

    `code` is a key of `codes.CODES` or a plugin's own, `message` the text that the scheduler writes, with amounts.
    `min_available`, `pods` (all that exist), `ready` and `pending` are numbers of pods; with `ready` not below
    `min_available` the gang runs and further pods wait. `found` pods had a node when the attempt was given up.
    `position` counts from 1 among the jobs of the queue that are at the same side of admission, and `ahead` names the
    nearest before it; 0 and empty without PodGroup or queue. `nodes` and `nearest` are empty if no node was looked at.
    """

    stage: str
    code: str
    message: str
    queue: str = ""
    position: int = 0
    ahead: tuple[str, ...] = ()
    min_available: int = 0
    pods: int = 0
    ready: int = 0
    pending: int = 0
    found: int = 0
    nodes: tuple[NodeReason, ...] = ()
    nearest: tuple[Shortage, ...] = ()


def diagnose(session: CycleSession) -> dict[str, Diagnosis]:
    """Return the diagnosis of each job that waits, by key; single pods are left out, as they have no queue or gang."""
    jobs = [job for _, job in sorted(session.state.ledger.jobs.items()) if _waits(session, job)]
    places = dict(_places(session, jobs))
    return {job.key: _diagnosis(session, job, *places.get(job.key, (0, ()))) for job in jobs}


JOBS_PER_STEP = 128
"""Jobs that are looked at in one step."""


def diagnose_job(
    session: CycleSession, job: JobInfo, *, position: tuple[int, tuple[str, ...]] | None = None
) -> Generator[None, None, Diagnosis | None]:
    """Return the diagnosis of one job, None if it does not wait; `position` and the jobs ahead, where known."""
    if job.is_single_pod or not _waits(session, job):
        return None
    if position is None:
        position = (yield from _place(session, job)) if job.schedulable else (0, ())
    return _diagnosis(session, job, *position)


def _place(session: CycleSession, job: JobInfo) -> Generator[None, None, tuple[int, tuple[str, ...]]]:
    """Return the position of a job and the jobs ahead, as `_places` does for all."""
    own, ahead = session.job_key(job), []
    for key, other in (yield from _line_of(session, job.queue, is_admitted=job.phase != PodGroupPhase.PENDING)):
        if other is not job and key < own:
            ahead.append((key, other.key))
    return len(ahead) + 1, tuple(name for _, name in sorted(nlargest(MAX_AHEAD, ahead)))


def in_line(session: CycleSession, queue: str) -> Generator[None, None, list[list[JobInfo]]]:
    """Return the waiting jobs of a queue in order: those that are admitted, and those that wait for admission."""
    lines = []
    for is_admitted in (True, False):
        line = yield from _line_of(session, queue, is_admitted=is_admitted)
        line.sort(key=itemgetter(0))
        lines.append([job for _, job in line])
    return lines


def _line_of(
    session: CycleSession, queue: str, *, is_admitted: bool
) -> Generator[None, None, list[tuple[SortKey, JobInfo]]]:
    """Return the waiting jobs of a queue that are at one side of admission, with their sort keys."""
    found = []
    jobs = [session.state.ledger.jobs[key] for key in session.queues[queue].jobs_by_key]
    for number, job in enumerate(jobs, start=1):
        if job.schedulable and (job.phase != PodGroupPhase.PENDING) is is_admitted and _waits(session, job):
            found.append((session.job_key(job), job))
        if not number % JOBS_PER_STEP:
            yield
    return found


def _waits(session: CycleSession, job: JobInfo) -> bool:
    if not job.has_group:
        return bool(job.pending) and not job.is_single_pod
    if not job.pending and not job.counts[TaskStatus.PIPELINED] and job.phase not in UNSETTLED:
        return False
    return bool(job.pending) or not (job.schedulable and session.rules.job_ready(job))


def _places(session: CycleSession, jobs: list[JobInfo]) -> Iterator[tuple[str, tuple[int, tuple[str, ...]]]]:
    """Yield key, position and the jobs ahead; jobs that wait for admission are counted apart from admitted ones."""

    def line(job: JobInfo) -> tuple[str, bool]:
        return job.queue, job.phase == PodGroupPhase.PENDING

    in_queues = sorted((job for job in jobs if job.schedulable), key=line)
    for _, some in groupby(in_queues, key=line):
        ordered = [job.key for job in sorted(some, key=session.job_key)]
        for at, key in enumerate(ordered):
            yield key, (at + 1, tuple(ordered[max(at - MAX_AHEAD, 0) : at]))


_IN_SENTENCES = {codes.FRAGMENTED: codes.INSUFFICIENT, codes.TOO_MANY_PODS: codes.INSUFFICIENT}
"""Codes that change with every pod that starts or ends, and what conditions have for them: else each change would be a
write.
"""


def sentence(session: CycleSession, job: JobInfo) -> str:
    """Return what follows Volcano's text in conditions and Events: the code and its meaning.

    It is the same while the code is, whatever the amounts are; "" where the reason of the condition is the code.
    """
    code, stage, _ = _reason(session, job)
    if stage in (Stage.GROUP, Stage.ENQUEUE):
        return ""
    if code == _NODES_UNAVAILABLE:
        code = codes.SEARCH_INCOMPLETE if job.attempts.is_search_incomplete else _code_at_nodes(session, job)
        code = _IN_SENTENCES.get(code, code)
    if code not in CODES or code == codes.NOT_TRIED:
        return ""
    return f"{code}: {CODES[code].meaning}"


def _code_at_nodes(session: CycleSession, job: JobInfo) -> str:
    """Return the code that `_at_nodes` returns, or InsufficientResource for any shortage, which is much faster.

    The filters are asked once per shape and session: many jobs may be due for a condition at once.
    """
    task = _example(job)
    errors = None if task is None else job.attempts.fit_errors.get(task.uid)
    if task is None or errors is None or not errors.counts or not len(session.state.ledger.columns):
        return _at_nodes(session, job)[0]
    if (fit := session.shape_fits.get(task.shape.id)) is None:
        fit = session.shape_fits[task.shape.id] = _shape_fit(session, task.shape)
    if fit.code:
        return fit.code
    if not _still_fits(session, job, task.shape, fit.rows):
        return codes.INSUFFICIENT
    return _node_reasons(errors.counts)[0].code


def _shape_fit(session: CycleSession, shape: Shape) -> ShapeFit:
    usable = _large_enough(session, shape)
    if not usable.any():
        return ShapeFit(codes.LARGER_THAN_ANY_NODE, ())
    masks = session.state.placer.rejections(shape)
    if code := _rejection(masks, usable):
        return ShapeFit(code, ())
    columns, usable = session.state.ledger.columns, _passing(masks, usable)
    for name, amount in shape.requests.items():
        usable &= columns.block[Quantity.FUTURE, columns.resource(name), : len(columns)] >= amount
    return ShapeFit("", np.flatnonzero(usable).tolist())


def _still_fits(session: CycleSession, job: JobInfo, shape: Shape, rows: Sequence[int]) -> bool:
    """Return whether one of these rows, which fit a pod, does so beside the pods that the attempt had placed."""
    columns = session.state.ledger.columns
    placed: dict[int, list[Shape]] = {}
    for task, row in _placed(session, job):
        placed.setdefault(row, []).append(task.shape)
    for row in rows:
        if (others := placed.get(row)) is None:
            return True
        free = columns.block[Quantity.FUTURE, :, row]
        if all(
            free[columns.resource(name)] - sum(other.requests.get(name, 0) for other in others) >= amount
            for name, amount in shape.requests.items()
        ):
            return True
    return False


def _example(job: JobInfo) -> TaskInfo | None:
    """Return a task that found no node, else a pending one; None without any."""
    failed = next((job.members[uid] for uid in job.attempts.fit_errors if uid in job.members), None)
    return failed or next(iter(job.pending.values()), None)


def _diagnosis(session: CycleSession, job: JobInfo, position: int, ahead: tuple[str, ...]) -> Diagnosis:
    code, stage, message = _reason(session, job)
    nodes: tuple[NodeReason, ...] = ()
    nearest: tuple[Shortage, ...] = ()
    if code in (_NODES_UNAVAILABLE, codes.QUEUE_QUOTA):
        at_nodes, nodes, nearest = _at_nodes(session, job)
        if code == _NODES_UNAVAILABLE and job.attempts.is_search_incomplete:
            at_nodes = codes.SEARCH_INCOMPLETE
        if code == codes.QUEUE_QUOTA and at_nodes != codes.LARGER_THAN_ANY_NODE:
            nodes = nearest = ()  # no node was looked at: the quota alone keeps it out
        else:
            code, stage = at_nodes, Stage.NODES
    return Diagnosis(
        stage=stage.value,
        code=code,
        message=message,
        queue=job.queue_name(session.state.default_queue),
        position=position,
        ahead=ahead,
        min_available=job.min_available,
        pods=len(job.members),
        ready=job.ready_count,
        pending=len(job.pending) + job.counts[TaskStatus.PIPELINED],
        found=job.schedulable_count,
        nodes=nodes,
        nearest=nearest,
    )


_NODES_UNAVAILABLE = "NodesUnavailable"
"""Found no node; `_at_nodes` returns the code."""


def _reason(session: CycleSession, job: JobInfo) -> tuple[str, Stage, str]:
    """Return code, stage and message; for jobs that found no node, a code that the nodes make precise."""
    text = waiting_text(job, session.enqueue_rejections, session.rules)
    if not job.has_group:
        return codes.POD_GROUP_NOT_FOUND, Stage.GROUP, text
    if not job.schedulable:
        name = job.queue_name(session.state.default_queue)
        return codes.QUEUE_NOT_FOUND, Stage.GROUP, job.attempts.reason.text or f'queue "{name}" does not exist'
    if job.counts[TaskStatus.PIPELINED]:
        return codes.WAITING_FOR_VICTIMS, Stage.VICTIMS, text
    if (refusal := session.enqueue_rejections.get(job.key)) is not None:
        return refusal.code, Stage.ENQUEUE, text
    if refused := next((task for task in job.pending.values() if task.retry_at > session.now), None):
        return codes.BIND_REFUSED, Stage.BIND, refused.last_refusal or f"the bind of pod {refused.name} was refused"
    if job.pending and all(task.is_gated for task in job.pending.values()):
        gates = sorted({gate.name for task in job.pending.values() for gate in task.pod.spec.scheduling_gates})
        return codes.SCHEDULING_GATED, Stage.PODS, f"its pods have the scheduling gates {', '.join(gates)}"
    if not job.members:
        if job.phase == PodGroupPhase.PENDING:
            return codes.NOT_TRIED, Stage.QUEUE, "the last cycle did not decide on its admission"
        return codes.PODS_MISSING, Stage.PODS, f"it is {job.phase}, and none of its {job.min_available} pods exists"
    return _attempted(session, job, text)


def _attempted(session: CycleSession, job: JobInfo, text: str) -> tuple[str, Stage, str]:
    """Return code, stage and message of a job whose pods could be tried."""
    reason = job.attempts.reason
    if job.attempts.fit_errors and _example(job) is not None:
        return _NODES_UNAVAILABLE, Stage.NODES, text
    if is_held_back(job):
        return (
            codes.QUEUE_QUOTA,
            Stage.QUEUE,
            with_details(text, amount_details(job, session.enqueue_rejections, session.rules)),
        )
    if reason.precision is Precision.WAITING and reason.code:
        return reason.code, _stage(reason.code), text
    verdict = session.rules.job_valid(job)
    if verdict.vote is Vote.REJECT:
        return verdict.code, _stage(verdict.code), verdict.message
    if job.queue_info is not None and session.rules.overused(job.queue_info):
        return codes.QUEUE_OVERUSED, Stage.QUEUE, f"queue {job.queue} has its share or more, and gives nothing now"
    return codes.NOT_TRIED, Stage.QUEUE, text


def _stage(code: str) -> Stage:
    """Return the stage of a code; a plugin's own codes are of jobs whose pods are not complete."""
    return CODES[code].stage if code in CODES else Stage.PODS


def _at_nodes(session: CycleSession, job: JobInfo) -> tuple[str, tuple[NodeReason, ...], tuple[Shortage, ...]]:
    """Return the code of a job that found no node, the nodes by reason, and how much is missing on the nearest."""
    columns, task = session.state.ledger.columns, _example(job)
    if not len(columns):
        return codes.NO_NODES, (), ()
    if task is None:
        return codes.NOT_TRIED, (), ()
    errors = job.attempts.fit_errors.get(task.uid)
    masks = session.state.placer.rejections(task.shape)
    free = _free(session, job)
    counts = errors.counts if errors is not None else _counts(session, task.shape, masks, free)
    nodes = _node_reasons(counts)
    if code := _rejection(masks, _large_enough(session, task.shape)):
        return code, nodes, ()
    eligible = _passing(masks, np.ones(len(columns), np.bool_))
    if errors is not None and (domain := session.domains.domain(errors.hyper_node or CLUSTER)) is not None:
        eligible &= domain.rows
    missing = max(job.min_available - job.ready_count - job.schedulable_count, 1)
    code, nearest = _shortage(session, task.shape, free, eligible, missing)
    if not nearest and nodes:
        code = nodes[0].code  # what kept it out is over, or is not an amount
    if errors is not None and errors.hyper_node and code in _ROOM:
        code = codes.NETWORK_TOPOLOGY
    return code, nodes, nearest


_ROOM = frozenset({codes.INSUFFICIENT, codes.FRAGMENTED, codes.TOO_MANY_PODS})
"""Codes of pods for which nodes exist that have too little room now."""


def _node_reasons(counts: Mapping[str, int]) -> tuple[NodeReason, ...]:
    ordered = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    return tuple(NodeReason(node_code(text), text, count) for text, count in ordered)


def _rejection(masks: Sequence[tuple[str, Mask]], large_enough: Mask) -> str:
    """Return the code of the filter that excludes most nodes that are large enough, "" if one is left or none is."""
    if not large_enough.any() or _passing(masks, large_enough).any():
        return ""
    text, _ = max(masks, key=lambda each: int(np.count_nonzero(each[1] & large_enough)))
    return node_code(text)


def _passing(masks: Sequence[tuple[str, Mask]], nodes: Mask) -> Mask:
    """Return those of the nodes that no filter excludes."""
    passing = nodes.copy()
    for _, mask in masks:
        passing &= ~mask
    return passing


def _free(session: CycleSession, job: JobInfo) -> NDArray[np.int64]:
    """Return free amounts by resource and node, as they were when the attempt was given up: its pods had nodes then."""
    columns = session.state.ledger.columns
    free: NDArray[np.int64] = columns.block[Quantity.FUTURE][:, : len(columns)].copy()
    for task, row in _placed(session, job):
        for name, amount in task.shape.requests.items():
            free[columns.resource(name), row] -= amount
    return free


def _placed(session: CycleSession, job: JobInfo) -> Iterator[tuple[TaskInfo, int]]:
    """Yield the pending tasks that had a node when the attempt was given up, with the row of the node."""
    rows = session.state.ledger.columns.rows
    for uid, (_, node) in job.attempts.outcomes.items():
        task, row = job.members.get(uid), rows.get(node)
        if task is not None and row is not None and task.status is TaskStatus.PENDING:
            yield task, row


def _counts(
    session: CycleSession, shape: Shape, masks: list[tuple[str, Mask]], free: NDArray[np.int64]
) -> Mapping[str, int]:
    """Return nodes by reason for a pod whose reasons the cycle did not keep."""
    columns = session.state.ledger.columns
    counts: dict[str, int] = {}
    left = np.ones(len(columns), np.bool_)
    short = [(f"Insufficient {name}", free[columns.resource(name)] < amount) for name, amount in shape.requests.items()]
    for text, mask in (*short, *masks):
        if number := int(np.count_nonzero(left & mask)):
            counts[text] = number
        left &= ~mask
    return counts


def _shortage(
    session: CycleSession, shape: Shape, free: NDArray[np.int64], eligible: Mask, missing: int
) -> tuple[str, tuple[Shortage, ...]]:
    """Return the code where eligible nodes are short of resources, and how much is missing on the nearest of them."""
    columns = session.state.ledger.columns
    names = sorted(shape.requests)
    rows = [columns.resource(name) for name in names]
    wanted = np.array([shape.requests[name] for name in names], np.int64).reshape(-1, 1)
    large_enough = eligible & _large_enough(session, shape)
    is_too_large = not large_enough.any()
    has = columns.block[Quantity.ALLOCATABLE][rows][:, : len(columns)] if is_too_large else free[rows]
    among = np.ones(len(columns), np.bool_) if is_too_large else large_enough
    short = np.maximum(wanted - has, 0)
    distance = np.where(among, (short / np.maximum(wanted, 1)).sum(axis=0), np.inf)
    row = int(distance.argmin())
    nearest = tuple(
        Shortage(
            columns.names[row],
            name,
            amount_text(name, shape.requests[name]),
            amount_text(name, max(int(has[at, row]), 0)),
            amount_text(name, int(short[at, row])),
        )
        for at, name in enumerate(names)
        if short[at, row]
    )
    if is_too_large:
        return codes.LARGER_THAN_ANY_NODE, nearest
    if [each.resource for each in nearest] == [PODS]:
        return codes.TOO_MANY_PODS, nearest
    in_all = np.maximum(free[rows][:, large_enough], 0).sum(axis=1, keepdims=True)
    is_fragmented = bool(nearest) and bool((in_all >= wanted * missing).all())
    return codes.FRAGMENTED if is_fragmented else codes.INSUFFICIENT, nearest


def _large_enough(session: CycleSession, shape: Shape) -> Mask:
    """Return the nodes that a pod of the shape would fit if they were empty."""
    columns = session.state.ledger.columns
    fits = np.ones(len(columns), np.bool_)
    for name, amount in shape.requests.items():
        fits &= columns.block[Quantity.ALLOCATABLE, columns.resource(name), : len(columns)] >= amount
    return fits
