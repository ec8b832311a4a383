"""`mpi`: the master knows its workers, and every container has ssh's port open.

Source: Volcano, pkg/controllers/job/plugins/distributed-framework/mpi/mpi.go.
"""

from __future__ import annotations

from collections.abc import Sequence

from volcanoio.framework.arguments import flags
from volcanoio.framework.jobpods import addresses, append, containers, open_port, task_named
from volcanoio.framework.jobs import JobPlugin, port
from volcanoio.model.base import Manifest
from volcanoio.model.batch import Job, TaskSpec
from volcanoio_plugins.job.hostlists import fits_pod, fits_variable, ranged

VARIABLE = "MPI_HOST"
PORT_NAME = "mpijob-port"
_DEFAULTS: dict[str, str | int | bool] = {"master": "master", "worker": "worker", "port": 22}


class MpiPlugin(JobPlugin):
    """Arguments: `master` (master), `worker` (worker): names of tasks; `port` (22), where sshd listens."""

    name = "mpi"
    needs = ("svc", "ssh")

    def __init__(self, arguments: Sequence[str]) -> None:
        chosen = flags(arguments, _DEFAULTS, "mpi")
        self._master, self._worker = str(chosen["master"]), str(chosen["worker"])
        self._port = port(chosen, "port", "mpi")

    def problems(self, job: Job) -> Sequence[str]:
        """A job without the task that starts the program."""
        if task_named(job, self._master) is not None:
            return ()
        text = f"the specified mpi master task was not found: {self._master}; name a task so, or give --master=TASK"
        return (text,)

    def hints(self, job: Job) -> Sequence[str]:
        """A master without workers."""
        if task_named(job, self._worker) is not None:
            return ()
        text = (
            f"there is no task {self._worker}, so the master gets no {VARIABLE}; name a task so, or give --worker=TASK"
        )
        return (text,)

    def on_pod_create(self, pod: Manifest, job: Job, task: TaskSpec, index: int) -> None:  # noqa: ARG002 - as declared
        """Open the port; on the master also set `MPI_HOST`, the workers' addresses with commas between.

        Where these are too long for a variable it is their range. A master without workers' task is left alone.
        """
        variables: list[Manifest] = []
        if task.name == self._master:
            worker = task_named(job, self._worker)
            if worker is None:
                return
            hosts = ",".join(addresses(job, worker))
            if not (fits_variable(VARIABLE, hosts) and fits_pod(pod, hosts)):
                hosts = ranged(job, worker)
            variables.append({"name": VARIABLE, "value": hosts})
        for container in containers(pod):
            open_port(container, PORT_NAME, self._port)
            if variables:
                append(container, "env", *variables)
