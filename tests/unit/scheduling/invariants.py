"""Invariants of the cluster state after each step."""

from __future__ import annotations

from collections import Counter

from volcanoio.engine.scheduling.cluster.jobs import JobInfo
from volcanoio.engine.scheduling.cluster.loads import LOADS, Load, Quantity
from volcanoio.engine.scheduling.cluster.node_columns import NodeColumns
from volcanoio.engine.scheduling.cluster.state import ClusterState
from volcanoio.engine.scheduling.cluster.subjobs import SubJobs
from volcanoio.framework.scheduling.views import ALLOCATED_STATUSES, TaskStatus
from volcanoio.model.resources import Amounts, add


def recomputed(state: ClusterState) -> NodeColumns:
    """Build the columns again from nodes, tasks and reservations."""
    ledger = state.ledger
    columns = NodeColumns()
    for obj in ledger.columns.objects:
        columns.put_node(obj)
    for task in ledger.tasks.values():
        row = columns.rows.get(task.node)
        if row is not None and LOADS[task.status]:
            columns.apply(row, task.shape, LOADS[task.status], 1)
    for reservations in state.reservations.by_job.values():
        for reservation in reservations:
            columns.apply(columns.rows[reservation.node], reservation.shape, Load.OCCUPIES, 1)
    return columns


def check(state: ClusterState) -> None:
    """Assert that every total equals its recomputation."""
    ledger, fresh = state.ledger, recomputed(state)
    for quantity in Quantity:
        for name in ledger.columns.resources:
            assert ledger.columns.view(quantity, name).tolist() == fresh.view(quantity, name).tolist(), (quantity, name)
    for job in ledger.jobs.values():
        counts = Counter(task.status for task in job.members.values())
        assert job.counts == [counts[status] for status in TaskStatus]
        assert set(job.pending) == {uid for uid, task in job.members.items() if task.status is TaskStatus.PENDING}
        assert job.best_effort == sum(1 for task in job.pending.values() if task.shape.best_effort)
        ready = counts[TaskStatus.SUCCEEDED] + sum(counts[status] for status in ALLOCATED_STATUSES)
        assert job.ready_count == ready
        held: Amounts = {}
        for task in job.members.values():
            if task.status in ALLOCATED_STATUSES:
                add(held, task.shape.requests)
        assert job.allocated == held
        table = ledger.pending_single_pods if job.is_single_pod else ledger.pending_jobs
        assert (job.key in table) == bool(job.pending)
        check_sub_jobs(job)
    for queue in ledger.queues.values():
        members = [ledger.jobs[key] for key in queue.jobs_by_key]
        total: Amounts = {}
        wanted: Amounts = {}
        for job in members:
            add(total, job.allocated)
            add(wanted, job.requested)
        assert queue.allocated == total
        assert queue.requested == wanted
        spread: dict[str, Amounts] = {}
        for job in members:
            for task in job.members.values():
                if task.status in ALLOCATED_STATUSES or task.status is TaskStatus.PIPELINED:
                    add(spread.setdefault(job.namespace, {}), task.shape.requests)
        assert {name: held for name, held in queue.namespaces.items() if held} == spread


def check_sub_jobs(job: JobInfo) -> None:
    """Assert that each task is in the sub-job of its labels, and is counted there."""
    policies = job.group.spec.sub_group_policy
    assert (job.sub_job_table is None) == (not policies)
    if job.sub_job_table is None:
        return
    fresh = SubJobs(job.key, policies, job.members.values())
    assert {uid: part.key for uid, part in job.sub_job_table.by_task.items()} == {
        uid: part.key for uid, part in fresh.by_task.items()
    }
    for key, part in fresh.by_key.items():
        kept = job.sub_job_table.by_key[key]
        assert (kept.counts, kept.ready_count, kept.best_effort) == (part.counts, part.ready_count, part.best_effort)
        assert kept.members.keys() == part.members.keys()
    assert job.sub_job_table.by_key.keys() == fresh.by_key.keys()
