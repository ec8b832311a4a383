"""`mpi`: gives the master the addresses of its workers, and adds the ssh port to every container.

Source: Volcano, pkg/controllers/job/plugins/distributed-framework/mpi/mpi.go.
"""

from collections.abc import Sequence

from volcanoio.framework.arguments import parse_flags
from volcanoio.framework.jobpods import add_port, addresses, append_to_list, containers, find_task
from volcanoio.framework.jobs import JobPlugin, parse_port
from volcanoio.model.base import Manifest
from volcanoio.model.batch import Job, TaskSpec
from volcanoio_plugins.job.hostlists import fits_pod, fits_variable, host_range

VARIABLE = "MPI_HOST"
PORT_NAME = "mpijob-port"
_DEFAULTS: dict[str, str | int | bool] = {"master": "master", "worker": "worker", "port": 22}


class MpiPlugin(JobPlugin):
    """Arguments: `master` (master), `worker` (worker): names of tasks; `port` (22), on which sshd listens."""

    name = "mpi"
    needs = ("svc", "ssh")

    def __init__(self, arguments: Sequence[str]) -> None:
        chosen = parse_flags(arguments, _DEFAULTS, "mpi")
        self._master, self._worker = str(chosen["master"]), str(chosen["worker"])
        self._port = parse_port(chosen, "port", "mpi")

    def problems(self, job: Job) -> Sequence[str]:
        """Refuse a job without the master's task, which starts the program."""
        if find_task(job, self._master) is not None:
            return ()
        text = f"The specified mpi master task was not found: {self._master}; name a task so, or give --master=TASK"
        return (text,)

    def warnings(self, job: Job) -> Sequence[str]:
        """Warn of a master without workers."""
        if find_task(job, self._worker) is not None:
            return ()
        text = (
            f"there is no task {self._worker}, so the master gets no {VARIABLE}; name a task so, or give --worker=TASK"
        )
        return (text,)

    def on_pod_create(self, pod: Manifest, job: Job, task: TaskSpec, index: int) -> None:  # noqa: ARG002 - as declared
        """Add the port; on the master also set `MPI_HOST`, the workers' addresses separated by commas.

        If these are too long for a variable, it is their range. Without the workers' task the master stays unchanged.
        """
        variables: list[Manifest] = []
        if task.name == self._master:
            if (worker := find_task(job, self._worker)) is None:
                return
            hosts = ",".join(addresses(job, worker))
            if not (fits_variable(VARIABLE, hosts) and fits_pod(pod, hosts)):
                hosts = host_range(job, worker)
            variables.append({"name": VARIABLE, "value": hosts})
        for container in containers(pod):
            add_port(container, PORT_NAME, self._port)
            if variables:
                append_to_list(container, "env", *variables)
