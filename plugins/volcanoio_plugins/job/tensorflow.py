"""`tensorflow`: TF_CONFIG, the cluster and a pod's place in it.

Source: Volcano, pkg/controllers/job/plugins/distributed-framework/tensorflow/tensorflow.go. TensorFlow takes it from
the environment only and knows no shorter form of it that means the same, so a job whose TF_CONFIG no program can be
started with is refused.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from volcanoio.framework.arguments import flags
from volcanoio.framework.jobpods import append, host_of
from volcanoio.framework.jobs import JobPlugin, port
from volcanoio.model.base import Manifest
from volcanoio.model.batch import Job, JobSpec, TaskSpec
from volcanoio_plugins.job.hostlists import POD_BYTES, STRING_BYTES, fits_pod, fits_variable

VARIABLE = "TF_CONFIG"
ROLES = ("ps", "worker", "chief", "evaluator")
_TYPES = ("chief", "worker", "ps", "evaluator")
"""In which order a pod's own role is looked for, where a task has several: Volcano's two orders differ."""
_DEFAULTS: dict[str, str | int | bool] = {**{role: role for role in ROLES}, "port": 2222}


class TensorflowPlugin(JobPlugin):
    """Arguments: `ps`, `worker`, `chief`, `evaluator`: the task of each role, by default named as it; `port` (2222)."""

    name = "tensorflow"
    needs = ("svc",)

    def __init__(self, arguments: Sequence[str]) -> None:
        chosen = flags(arguments, _DEFAULTS, "tensorflow")
        self._port = port(chosen, "port", "tensorflow")
        self._tasks = {role: str(chosen[role]) for role in ROLES}
        self._known: tuple[JobSpec, str] | None = None

    def problems(self, job: Job) -> Sequence[str]:
        """A cluster that is too large for TF_CONFIG."""
        found = []
        for task in job.spec.tasks:
            text = self._config(job, task, max(0, task.replicas - 1))
            if not (fits_variable(VARIABLE, text) and fits_pod(task.template, text)):
                found.append(
                    f"{VARIABLE} of task {task.name} is {len(text)} bytes; a variable takes {STRING_BYTES} bytes, its "
                    f"copies in a pod together {POD_BYTES}; use fewer replicas, or leave the plugin out and read "
                    "/etc/volcano/*.host"
                )
        return found

    def hints(self, job: Job) -> Sequence[str]:
        """Tasks without a role are in nobody's cluster; roles that were given to a task that is not there."""
        tasks = {task.name for task in job.spec.tasks}
        strangers = sorted(tasks - set(self._tasks.values()))
        found = [
            f"there is no task {name}, so the cluster has no {role}; name a task so, or give --{role}=TASK"
            for role, name in self._tasks.items()
            if name != role and name not in tasks
        ]
        if strangers:
            found.append(
                f"no role is that of task {strangers[0]}, so {VARIABLE} leaves it out; give --worker=TASK or so"
            )
        return found

    def on_pod_create(self, pod: Manifest, job: Job, task: TaskSpec, index: int) -> None:
        """Set TF_CONFIG in the containers; a job of a single pod needs none."""
        text = self._config(job, task, index)
        if text:
            for container in pod["spec"].get("containers") or ():
                append(container, "env", {"name": VARIABLE, "value": text})

    def _config(self, job: Job, task: TaskSpec, index: int) -> str:
        """TF_CONFIG of one pod; "" where there is none. The cluster is worked out once for all pods of a job."""
        if len(job.spec.tasks) == 1 and job.spec.tasks[0].replicas == 1:
            return ""
        if self._known is None or self._known[0] is not job.spec:
            self._known = (job.spec, self._cluster(job))
        place = msgspec.json.encode({"type": self._role(task, _TYPES) or task.name, "index": index}).decode()
        return f'{{"cluster":{self._known[1]},"task":{place}}}'

    def _cluster(self, job: Job) -> str:
        """The addresses of each role that has pods, as JSON; of a template with a hostname once for each replica."""
        found: dict[str, list[str]] = {}
        for task in job.spec.tasks:
            if (role := self._role(task, ROLES)) and task.replicas > 0:
                hosts = (host_of(job, task, index) for index in range(task.replicas))
                found[role] = [f"{host.address}:{self._port}" for host in hosts]
        return msgspec.json.encode({role: found[role] for role in ROLES if role in found}).decode()

    def _role(self, task: TaskSpec, order: Sequence[str]) -> str:
        """The first role that a task has; "" for none."""
        return next((role for role in order if self._tasks[role] == task.name), "")
