"""How often each place in a job has been started: what `fail-attempts` counts, over recreated pods."""

from __future__ import annotations

from volcanoio.localcluster.nodes.behaviour import attempt_key
from volcanoio.localcluster.nodes.podrun import PodRun
from volcanoio.model import names
from volcanoio.model.core import Pod


class Attempts:
    """Counts starts by place (`behaviour.attempt_key`).

    Memory does not outlive the process. When pods from before it may exist (`resumed`), a place not yet known is taken
    to have been started once per retry of its job, which the job controller stores on each pod.
    """

    def __init__(self) -> None:
        self._starts: dict[str, int] = {}
        self.resumed = False

    def before(self, pod: Pod) -> int:
        """Starts before this pod's first."""
        known = self._starts.get(attempt_key(pod))
        if known is not None:
            return known
        retries = pod.metadata.annotations.get(names.JOB_RETRY_COUNT, "")
        return int(retries) if self.resumed and retries.isdigit() else 0

    def note(self, run: PodRun) -> None:
        """Remember the starts of this pod. Only pods that have `fail-attempts` are remembered."""
        if run.behaviour.fail_attempts:
            own = max((0 if c.never_started else c.restarts + 1 for c in run.mains), default=0)
            self._starts[attempt_key(run.pod)] = run.earlier_starts + own
