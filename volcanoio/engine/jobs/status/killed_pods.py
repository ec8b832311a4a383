"""Pods that a job's phase deletes, whatever the spec wants."""

from collections.abc import Iterable, Iterator

from volcanoio.engine.jobs.pods.index_ranges import parse_indexes
from volcanoio.engine.jobs.pods.observed import index_of, is_live, is_marked, partition_of, task_of, version_of
from volcanoio.engine.jobs.state.reconcile_context import ReconcileContext
from volcanoio.engine.jobs.state.stored_state import TargetFilter, target_filter
from volcanoio.engine.jobs.state.transitions import RECONCILE_MODES, ReconcileMode
from volcanoio.engine.jobs.status.phases import current_phase, is_exhausted
from volcanoio.model.batch import Job
from volcanoio.model.core import Pod


def pods_to_kill(context: ReconcileContext) -> Iterator[Pod]:
    """Iterate over the pods that the job's phase deletes and that do not terminate yet, in no order."""
    match RECONCILE_MODES[current_phase(context.job)]:
        case ReconcileMode.STOP:
            live = context.pod_summary.own_pods() if context.pod_summary.live else ()
            return (pod for pod in live if is_live(pod) and not context.is_terminating(pod))
        case ReconcileMode.RESTART if not is_exhausted(context.job, context.job.status):
            is_target = _targets_filter(context)
            remaining = (pod for pod in _restart_candidates(context) if not context.is_terminating(pod))
            return (
                pod
                for pod in remaining
                if is_target(task_of(pod), index_of(pod), partition_of(pod)) or _must_restart(context, pod)
            )
        case _:
            return iter(())


def targets_deleted_by_others(context: ReconcileContext) -> Iterator[Pod]:
    """Iterate over unmarked targets of a restart that somebody else is deleting, in no order."""
    is_target, deleting = _targets_filter(context), context.state.deleting
    leaving = (
        pod for pod in _restart_candidates(context) if context.is_terminating(pod) and pod.metadata.uid not in deleting
    )
    return (
        pod
        for pod in leaving
        if needs_mark(context.job, pod) and is_target(task_of(pod), index_of(pod), partition_of(pod))
    )


def _targets_filter(context: ReconcileContext) -> TargetFilter:
    """Return the filter of the restart's targets; a restart of the whole job has none, it deletes older versions."""
    return target_filter(context.targets or ())


def _restart_candidates(context: ReconcileContext) -> Iterable[Pod]:
    """Return the pods that a restart may delete: few, where it is about single pods of a big job."""
    summary, targets = context.pod_summary, context.targets
    outdated = summary.has_outdated_pods(whole_job=targets is None)
    if outdated or any(not target.pods for target in targets or ()):
        return summary.own_pods()
    name = context.job.metadata.name
    return summary.own_pods_named(
        {f"{name}-{target.task}-{index}" for target in targets or () for index in parse_indexes(target.pods)}
    )


def _must_restart(context: ReconcileContext, pod: Pod) -> bool:
    old = (version_of(pod) or 0) < context.job.status.version
    if old and (context.targets is None or is_live(pod)):
        return True
    return is_marked(pod)


def needs_mark(job: Job, pod: Pod) -> bool:
    """Return whether the pod is of the current version and not yet marked for deletion."""
    return not is_marked(pod) and (version_of(pod) or 0) >= job.status.version
