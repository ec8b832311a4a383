"""A dump of the scheduler's state as plain values, to compare two states.

It contains everything that a later decision may read, including the order of rows and members; derived data (results of
plugins, sorted lists, views of columns) is omitted.
"""

from dataclasses import asdict
from typing import Any

import msgspec

from volcanoio.engine.scheduling.cluster.attempts import Attempts
from volcanoio.engine.scheduling.cluster.jobs import JobInfo, TaskInfo
from volcanoio.engine.scheduling.cluster.ledger import Ledger
from volcanoio.engine.scheduling.cluster.loads import Quantity
from volcanoio.engine.scheduling.cluster.node_columns import NodeColumns
from volcanoio.engine.scheduling.cluster.queues import QueueInfo
from volcanoio.engine.scheduling.cluster.state import ClusterState


def state_dump(state: ClusterState) -> dict[str, Any]:
    """Return the dump of a state between two cycles. API objects are included unchanged; all else is plain."""
    ledger = state.ledger
    return {
        "listed": state.listed_resources,
        "foreign_groups": list(state.foreign_groups),
        "handover": {} if state.handover is None else {name: at for name, (at, _) in state.handover.waiting.items()},
        "nodes": _nodes(ledger.columns),
        "shapes": [msgspec.to_builtins(shape, order="deterministic") for shape in ledger.shapes.all],
        "tasks": {uid: _task(task) for uid, task in ledger.tasks.items()},
        "jobs": {key: _job(job) for key, job in ledger.jobs.items()},
        "queues": {name: _queue(queue) for name, queue in ledger.queues.items()},
        "classes": dict(state.priority_classes),
        "prebinding": {uid: msgspec.to_builtins(steps) for uid, steps in state.prebinding.items()},
        "inputs": state.inputs.dump(),
        "evicting": sorted(state.pods.evicting),
        "holds": {
            job: [[hold.node, hold.shape.id] for hold in held] for job, held in state.reservations.by_job.items()
        },
        "claims": {
            uid: [claim.node, claim.expires_at, sorted(claim.victims or ())]
            for uid, claim in state.nominations.by_task.items()
        },
        "revisit": dict(state.revisit_at),
        "urgent": list(state.bind_refused_jobs),
        "turn": state.next_action,
        "answers": {f"{plugin} {key}": answer for (plugin, key), answer in state.answers.items()},
        "refused": sorted(state.enqueue_refused),
        "failed_attempts": {action: sorted(keys) for action, keys in state.failed_attempts.items()},
        **_membership(ledger),
    }


def _membership(ledger: Ledger) -> dict[str, Any]:
    """Return the members of the ledger's tables, in order."""
    return {
        "on_node": {node: list(tasks) for node, tasks in ledger.tasks_by_node.items()},
        "schedulable": list(ledger.schedulable_jobs),
        "known_queues": list(ledger.existing_queues),
        "backlog": list(ledger.pending_jobs),
        "pending_single_pods": list(ledger.pending_single_pods),
        "phases": {phase: list(jobs) for phase, jobs in ledger.jobs_by_phase.items() if jobs},
        "dirty": [*ledger.deferred, *ledger.dirty],
    }


def _nodes(columns: NodeColumns) -> list[dict[str, Any]]:
    """Return by row the node and its amounts by quantity and resource."""
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
        "refusals": task.bind_refusals,
        "refusal": task.bind_refusal,
        "retry_at": task.retry_at,
        "condition": task.condition and list(task.condition),
        "condition_at": task.condition_at,
        "nominated": task.nominated_node,
    }


def _job(job: JobInfo) -> dict[str, Any]:
    return {
        "group": job.group,
        "known": job.has_group,
        "queue": job.queue,
        "priority": job.priority,
        "phase": str(job.phase),
        "members": list(job.members),
        "waiting": list(job.pending),
        "counts": list(job.counts),
        "ready": job.ready_count,
        "roles": {role: list(counts) for role, counts in job.by_role.items()},
        "best_effort": job.best_effort,
        "excluded_best_effort": job.excluded_best_effort,
        "sub_jobs": {part.key: [*part.counts, part.best_effort, part.excluded_best_effort] for part in job.sub_jobs},
        "held": dict(job.allocated),
        "wanted": dict(job.requested),
        "attempts": _attempts(job.attempts),
        "urgent_until": job.urgent_until,
        "in_flight": msgspec.to_builtins(job.status_in_flight),
        "writing": job.status_writes_in_flight,
        "short_since": job.not_ready_since,
        "shown": job.members_at_close,
        "waiting_since": job.pending_since,
        "written_at": job.status_written_at,
        "said_at": job.reported_at,
        "condition_at": job.condition_at,
        "pod_reasons_due": job.pod_reasons_due,
        "pod_reason_delay": job.pod_reason_delay,
        "event_at": job.event_at,
        "event_text": job.event_text,
    }


def _attempts(attempts: Attempts) -> dict[str, Any]:
    return {
        "reason": asdict(attempts.reason),
        "fit_errors": {uid: [errors.total, dict(errors.counts)] for uid, errors in attempts.fit_errors.items()},
        "failed_roles": sorted(attempts.failed_roles),
        "limited": attempts.is_quota_limited,
        "refusal": attempts.enqueue_refusal,
        "useless": attempts.unschedulable_until
        and [[shape.id for shape in attempts.unschedulable_until.shapes], attempts.unschedulable_until.until],
        "outcomes": {uid: [status.name, node] for uid, (status, node) in attempts.outcomes.items()},
    }


def _queue(queue: QueueInfo) -> dict[str, Any]:
    return {
        "object": queue.object,
        "known": queue.exists,
        "members": list(queue.jobs_by_key),
        "held": dict(queue.allocated),
        "wanted": dict(queue.requested),
        "written": queue.allocated_in_flight and dict(queue.allocated_in_flight),
        "written_at": queue.allocated_written_at,
    }
