"""A picture of all the scheduler knows, as plain values: what shows whether two states are the same.

Everything a later decision may read is in it, also the order of rows and members; what is only worked out anew from the
rest (answers of plugins, sorted lists, views of columns) is not.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import msgspec

from volcanoio.engine.scheduling.cluster import ClusterState
from volcanoio.engine.scheduling.columns import Columns
from volcanoio.engine.scheduling.explanation import Attempts
from volcanoio.engine.scheduling.jobs import JobInfo
from volcanoio.engine.scheduling.ledger import Ledger
from volcanoio.engine.scheduling.loads import Quantity
from volcanoio.engine.scheduling.queues import QueueInfo
from volcanoio.engine.scheduling.tasks import TaskInfo


def snapshot(state: ClusterState) -> dict[str, Any]:
    """The picture of a state between two cycles. API objects stand in it as they are; all else is plain."""
    ledger = state.ledger
    return {
        "listed": state.listed,
        "nodes": _nodes(ledger.columns),
        "shapes": [msgspec.to_builtins(shape, order="deterministic") for shape in ledger.shapes.all],
        "tasks": {uid: _task(task) for uid, task in ledger.tasks.items()},
        "jobs": {key: _job(job) for key, job in ledger.jobs.items()},
        "queues": {name: _queue(queue) for name, queue in ledger.queues.items()},
        "classes": state.classes,
        "prebinding": {uid: msgspec.to_builtins(steps) for uid, steps in state.prebinding.items()},
        "inputs": state.inputs.picture(),
        "evicting": sorted(state.pods.evicting),
        "holds": {job: [[hold.node, hold.shape.id] for hold in held] for job, held in state.holds.by_job.items()},
        "claims": {
            uid: [claim.node, claim.until, sorted(claim.victims or ())] for uid, claim in state.claims.by_task.items()
        },
        "revisit": dict(state.revisit),
        "urgent": list(state.urgent),
        "turn": state.turn,
        "answers": {f"{plugin} {key}": answer for (plugin, key), answer in state.answers.items()},
        "refused": sorted(state.refused),
        "vain": {action: sorted(keys) for action, keys in state.vain.items()},
        **_membership(ledger),
    }


def _membership(ledger: Ledger) -> dict[str, Any]:
    """Who is in which of the ledger's tables, in their order."""
    return {
        "on_node": {node: list(tasks) for node, tasks in ledger.on_node.items()},
        "schedulable": list(ledger.listed),
        "known_queues": list(ledger.known_queues),
        "backlog": list(ledger.backlog),
        "singles": list(ledger.singles),
        "phases": {phase: list(jobs) for phase, jobs in ledger.phases.items() if jobs},
        "dirty": [*ledger.put_off, *ledger.dirty],
    }


def _nodes(columns: Columns) -> list[dict[str, Any]]:
    """By row: the node and its amounts by quantity and resource."""
    size = len(columns)
    amounts = columns.block[:, :, :size].tolist()
    return [
        {
            "object": columns.objects[row],
            **{
                quantity.name.lower(): {
                    resource: amounts[quantity][index][row] for resource, index in columns.resources.items()
                }
                for quantity in Quantity
            },
        }
        for row in range(size)
    ]


def _task(task: TaskInfo) -> dict[str, Any]:
    return {
        "pod": task.pod,
        "job": task.job,
        "status": task.status.name,
        "node": task.node,
        "shape": task.shape.id,
        "refusals": task.refusals,
        "refusal": task.refusal,
        "retry_at": task.retry_at,
        "condition": task.condition and list(task.condition),
        "condition_at": task.condition_at,
        "nominated": task.nominated,
    }


def _job(job: JobInfo) -> dict[str, Any]:
    return {
        "group": job.group,
        "known": job.known,
        "queue": job.queue,
        "priority": job.priority,
        "phase": str(job.phase),
        "members": list(job.members),
        "waiting": list(job.waiting),
        "counts": list(job.counts),
        "ready": job.ready_count,
        "roles": {role: list(counts) for role, counts in job.by_role.items()},
        "best_effort": job.best_effort,
        "homeless": job.homeless,
        "sub_jobs": {part.key: [*part.counts, part.best_effort, part.homeless] for part in job.sub_jobs},
        "held": dict(job.held),
        "wanted": dict(job.wanted),
        "attempts": _attempts(job.attempts),
        "urgent_until": job.urgent_until,
        "in_flight": msgspec.to_builtins(job.in_flight),
        "writing": job.writing,
        "short_since": job.short_since,
        "shown": job.shown,
        "waiting_since": job.waiting_since,
        "written_at": job.written_at,
        "said_at": job.said_at,
        "condition_at": job.condition_at,
        "event_at": job.event_at,
        "event_text": job.event_text,
    }


def _attempts(attempts: Attempts) -> dict[str, Any]:
    return {
        "reason": asdict(attempts.reason),
        "fit_errors": {uid: [errors.total, dict(errors.counts)] for uid, errors in attempts.fit_errors.items()},
        "failed_roles": sorted(attempts.failed_roles),
        "limited": attempts.limited,
        "refusal": attempts.refusal,
        "useless": attempts.useless and [attempts.useless.shape.id, attempts.useless.until],
        "outcomes": {uid: [status.name, node] for uid, (status, node) in attempts.outcomes.items()},
    }


def _queue(queue: QueueInfo) -> dict[str, Any]:
    return {
        "object": queue.object,
        "known": queue.known,
        "members": list(queue.members),
        "held": dict(queue.held),
        "wanted": dict(queue.wanted),
        "written": queue.written and dict(queue.written),
        "written_at": queue.written_at,
    }
