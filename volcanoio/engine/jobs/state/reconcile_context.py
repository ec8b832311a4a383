"""Input of one reconciliation of a job."""

from operator import attrgetter

import msgspec

from volcanoio.engine.jobs.pods.desired import DesiredObjects
from volcanoio.engine.jobs.pods.observed import Counts, is_terminating
from volcanoio.engine.jobs.pods.plugins import PluginCache
from volcanoio.engine.jobs.pods.summary import PodSummary
from volcanoio.engine.jobs.state.job_state import JobState
from volcanoio.engine.jobs.state.stored_state import RestartTarget
from volcanoio.framework.controller import Lookup
from volcanoio.framework.overrides import TaskOverride
from volcanoio.model.batch import Job
from volcanoio.model.core import Pod


class ReconcileContext(msgspec.Struct, frozen=True, kw_only=True):
    """Input of one reconciliation: the job with its pods, stored state, desired objects and references."""

    job: Job
    state: JobState
    pod_summary: PodSummary
    targets: tuple[RestartTarget, ...] | None
    desired: DesiredObjects
    lookup: Lookup
    plugin_cache: PluginCache
    now: float = 0.0
    overrides: tuple[TaskOverride, ...] = ()
    needs_approval: bool = False

    @property
    def pods(self) -> list[Pod]:
        """The job's own pods, sorted by name; slow for jobs with many pods."""
        return sorted(self.pod_summary.own_pods(), key=attrgetter("metadata.name"))

    @property
    def counts(self) -> Counts:
        """Counts of the pods of the spec's tasks."""
        return self.pod_summary.counts

    def is_terminating(self, pod: Pod) -> bool:
        """Return whether the pod is being deleted."""
        return is_terminating(pod, self.state.deleting)
