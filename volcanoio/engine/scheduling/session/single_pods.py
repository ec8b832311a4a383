"""Pods without PodGroup, if the scheduler accepts them: each is a job of one task, placed after all actions.

Latency-bound ones that have just arrived are placed before all actions, and between two gangs.
"""

from collections.abc import Iterator, Sequence

from volcanoio.engine.scheduling.cluster.jobs import JobInfo, TaskInfo
from volcanoio.engine.scheduling.ordering.backlogs import single_pod_key
from volcanoio.engine.scheduling.session.session import CycleSession, update_shapes
from volcanoio.engine.scheduling.status.pod_conditions import report_single_pod
from volcanoio.framework.events import Observed
from volcanoio.framework.scheduling.session import Run

MIN_TRIED_PODS = 64
"""Pods tried even if gangs used up the cycle's budget, so that single pods do not starve."""
SKIPPED_PER_STEP = 16
"""Unschedulable pods skipped in one step."""
ORDERING_EFFORT = 0.25
"""Effort counted for each step of ordering pods, in evaluations of all nodes."""
SINGLE_PODS = "single pods"
"""`CycleResult.cut_action` of a cycle that was cut short while placing single pods."""


def place_arrived_agent_pods(session: CycleSession) -> Iterator[None]:
    """Bind the latency-bound pods that were not tried yet; those that fit no node wait with the other single pods.

    Gated pods, and those whose bind was refused and may not be retried yet, are left for a later cycle.
    """
    arrived, pending = session.state.pods.arrived_agent_pods, session.state.ledger.pending_single_pods
    for job in sorted((pending[key] for key in arrived if key in pending), key=single_pod_key):
        task = next(iter(job.pending.values()))
        if not task.is_gated and task.retry_at <= session.now:
            session.tried_agent_pods.add(job.key)
            if _place(session, job, task):
                session.stats.agent_statements += 1
            arrived.discard(job.key)  # not before: the cycle may be cut to wait for an answer about this pod
            session.failed_jobs.discard(job.key)  # a failure of the action at work is recorded there
        yield


def place_arrivals(session: CycleSession, arrivals: Sequence[Observed]) -> None:
    """Fold latency-bound pods that arrived since the cycle opened, and bind them between two gangs."""
    for event in arrivals:
        session.state.fold_arrival(event)
    session.pods.classify_new()
    for _ in place_arrived_agent_pods(session):
        pass
    session.outbox.is_urgent = True


def place_single_pods(session: CycleSession) -> Iterator[None]:
    """Bind the pods that fit a node, and report why the others do not.

    After a cycle that was cut short, the pods it failed to place are skipped until all other pods were tried.
    """
    order = session.state.single_pod_order
    for _ in order.begin():
        session.state.placer.add_effort(ORDERING_EFFORT)
        yield
    failed = session.state.failed_attempts.setdefault(SINGLE_PODS, set())
    session.failed_jobs.clear()
    tried = skipped = 0
    for job in order:
        task = next(iter(job.pending.values()))
        is_tried = job.key in failed or job.key in session.tried_agent_pods
        if is_tried or task.is_gated or task.retry_at > session.now or session.is_unschedulable(job):
            skipped += 1
            if not skipped % SKIPPED_PER_STEP:
                yield
            continue
        tried += 1
        if tried > MIN_TRIED_PODS and session.is_budget_exhausted():
            failed.update(session.failed_jobs)
            return
        _place(session, job, task)
        yield
    failed.clear()


def _place(session: CycleSession, job: JobInfo, task: TaskInfo) -> bool:
    """Bind a pod if a node has idle room for it; return whether one has."""
    session.begin_attempt(job)
    update_shapes(session, job, [task])
    run = Run(task.shape, task.role, [task], task.nominated_node)
    statement = session.statement(job)
    placed, _ = statement.allocate(run, 0, 1, until_ready=False, idle_only=True)
    if placed:
        statement.commit()
        return True
    statement.discard()
    session.mark_unschedulable(job, [run])
    report_single_pod(session, job, task)
    return False
