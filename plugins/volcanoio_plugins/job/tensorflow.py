"""`tensorflow`: TF_CONFIG, the cluster and the pod's task in it.

Source: Volcano, pkg/controllers/job/plugins/distributed-framework/tensorflow/tensorflow.go. TensorFlow reads it from
the environment only and has no shorter form of it, so a job whose TF_CONFIG is too long for the environment is refused.
"""

from collections.abc import Sequence

import msgspec

from volcanoio.framework.arguments import parse_flags
from volcanoio.framework.jobpods import append_to_list, containers, host_of
from volcanoio.framework.jobs import JobPlugin, parse_port
from volcanoio.model.base import Manifest
from volcanoio.model.batch import Job, JobSpec, TaskSpec
from volcanoio_plugins.job.hostlists import MAX_POD_BYTES, MAX_VARIABLE_BYTES, fits_pod, fits_variable

VARIABLE = "TF_CONFIG"
ROLES = ("ps", "worker", "chief", "evaluator")
_TYPES = ("chief", "worker", "ps", "evaluator")
"""The order in which a pod's own role is chosen if a task has several: Volcano's two orders differ."""
_DEFAULTS: dict[str, str | int | bool] = {**{role: role for role in ROLES}, "port": 2222}


class TensorflowPlugin(JobPlugin):
    """Arguments: `ps`, `worker`, `chief`, `evaluator`: the task of each role, by default its name; `port` (2222)."""

    name = "tensorflow"
    needs = ("svc",)

    def __init__(self, arguments: Sequence[str]) -> None:
        chosen = parse_flags(arguments, _DEFAULTS, "tensorflow")
        self._port = parse_port(chosen, "port", "tensorflow")
        self._tasks = {role: str(chosen[role]) for role in ROLES}
        self._cached: tuple[JobSpec, str] | None = None

    def problems(self, job: Job) -> Sequence[str]:
        """Refuse a cluster that is too large for TF_CONFIG, of tasks with as many containers the longest name."""
        longest: dict[int, TaskSpec] = {}
        for task in sorted(job.spec.tasks, key=lambda task: len(task.name)):
            longest[sum(1 for _ in containers(task.template))] = task
        found = []
        for task in longest.values():
            text = self._config(job, task, max(0, task.replicas - 1))
            if not (fits_variable(VARIABLE, text) and fits_pod(task.template, text)):
                found.append(
                    f"{VARIABLE} of task {task.name} is {len(text)} bytes; "
                    f"a variable takes {MAX_VARIABLE_BYTES} bytes, its copies in a pod together {MAX_POD_BYTES}; "
                    "use fewer replicas, or leave the plugin out and read "
                    "/etc/volcano/*.host"
                )
        return found

    def warnings(self, job: Job) -> Sequence[str]:
        """Warn of tasks without a role, and of roles assigned to a missing task."""
        tasks = {task.name for task in job.spec.tasks}
        unassigned = sorted(tasks - set(self._tasks.values()))
        found = [
            f"there is no task {name}, so the cluster has no {role}; name a task so, or give --{role}=TASK"
            for role, name in self._tasks.items()
            if name != role and name not in tasks
        ]
        if unassigned:
            found.append(
                f"no role is that of task {unassigned[0]}, so {VARIABLE} leaves it out; give --worker=TASK or so"
            )
        return found

    def on_pod_create(self, pod: Manifest, job: Job, task: TaskSpec, index: int) -> None:
        """Set TF_CONFIG in the containers; a job of a single pod needs none."""
        if text := self._config(job, task, index):
            for container in pod["spec"].get("containers") or ():
                append_to_list(container, "env", {"name": VARIABLE, "value": text})

    def _config(self, job: Job, task: TaskSpec, index: int) -> str:
        """Return TF_CONFIG of one pod, "" for none. The cluster part is cached for all pods of a job."""
        if len(job.spec.tasks) == 1 and job.spec.tasks[0].replicas == 1:
            return ""
        if self._cached is None or self._cached[0] is not job.spec:
            self._cached = (job.spec, self._cluster(job))
        place = msgspec.json.encode({"type": self._role(task, _TYPES) or task.name, "index": index}).decode()
        return f'{{"cluster":{self._cached[1]},"task":{place}}}'

    def _cluster(self, job: Job) -> str:
        """Return the addresses of each role as JSON; a template with a hostname repeats it for each replica."""
        found: dict[str, list[str]] = {}
        for task in job.spec.tasks:
            if (role := self._role(task, ROLES)) and task.replicas > 0:
                hosts = (host_of(job, task, index) for index in range(task.replicas))
                found[role] = [f"{host.address}:{self._port}" for host in hosts]
        return msgspec.json.encode({role: found[role] for role in ROLES if role in found}).decode()

    def _role(self, task: TaskSpec, order: Sequence[str]) -> str:
        return next((role for role in order if self._tasks[role] == task.name), "")
