"""`hcclrank`: the rank annotation that Ascend's device plugin reads from a pod.

Source: Volcano, pkg/controllers/job/plugins/distributed-framework/hcclrank/hcclrank.go.
"""

from collections.abc import Sequence

from volcanoio.framework.arguments import parse_flags
from volcanoio.framework.jobpods import find_task
from volcanoio.framework.jobs import JobPlugin
from volcanoio.model.base import Manifest
from volcanoio.model.batch import Job, TaskSpec

ANNOTATION = "hccl/rankIndex"
_DEFAULTS: dict[str, str | int | bool] = {"master": "master", "worker": "worker"}


class HcclrankPlugin(JobPlugin):
    """Arguments: `master` (master), `worker` (worker): names of tasks."""

    name = "hcclrank"
    after = ("pytorch",)

    def __init__(self, arguments: Sequence[str]) -> None:
        chosen = parse_flags(arguments, _DEFAULTS, "hcclrank")
        self._master, self._worker = str(chosen["master"]), str(chosen["worker"])

    def warnings(self, job: Job) -> Sequence[str]:
        """Warn if neither the master's nor the worker's task exists: then no pod gets a rank from its index."""
        if find_task(job, self._master) is not None or find_task(job, self._worker) is not None:
            return ()
        text = f"there is neither a task {self._master} nor {self._worker}, so only pods with RANK have a rank"
        return (f"{text}; name a task so, or give --worker=TASK",)

    def on_pod_create(self, pod: Manifest, job: Job, task: TaskSpec, index: int) -> None:
        """Set `hccl/rankIndex` unless the template does: the RANK of a container, else masters first, then workers."""
        annotations = pod["metadata"].setdefault("annotations", {})
        if not annotations.get(ANNOTATION) and (rank := _rank_variable(pod) or self._rank(job, task, index)):
            annotations[ANNOTATION] = rank

    def _rank(self, job: Job, task: TaskSpec, index: int) -> str:
        if task.name == self._master:
            return str(index)
        if task.name != self._worker:
            return ""
        master = find_task(job, self._master)
        return str(index + (master.replicas if master is not None else 0))


def _rank_variable(pod: Manifest) -> str:
    for container in pod["spec"].get("containers") or ():
        for variable in container.get("env") or ():
            if variable.get("name") == "RANK":
                return str(variable.get("value") or "")
    return ""
