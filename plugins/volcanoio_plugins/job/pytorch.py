"""`pytorch`: the variables with which `torch.distributed` and torchrun find the master.

Source: Volcano, pkg/controllers/job/plugins/distributed-framework/pytorch/pytorch.go.
"""

from collections.abc import Sequence

from volcanoio.framework.arguments import parse_flags
from volcanoio.framework.jobpods import add_port, append_to_list, find_task, host_of
from volcanoio.framework.jobs import JobPlugin, PluginArgumentError, parse_port
from volcanoio.model.base import Manifest
from volcanoio.model.batch import Job, TaskSpec

PORT_NAME = "pytorchjob-port"
WAIT_CONTAINER = "wait-for-master"
_DEFAULTS: dict[str, str | int | bool] = {
    "master": "master",
    "worker": "worker",
    "port": 23456,
    "wait-master-enabled": False,
    "wait-master-timeout": 300,
    "wait-master-image": "busybox:1.36.1",
}
_WAIT_SCRIPT = """\
answers() {{
  if command -v nc >/dev/null 2>&1; then
    nc -z -w 2 {host} {port}
  else
    timeout 2 bash -c 'exec 3<>/dev/tcp/{host}/{port}'
  fi
}}
end=$(($(date +%s) + {seconds}))
until answers 2>/dev/null; do
  if [ "$(date +%s)" -ge "$end" ]; then
    echo 'the master does not listen at {host}:{port} after {seconds} s' >&2
    exit 1
  fi
  sleep 2
done
"""
"""The init container of a worker: it connects to the master every two seconds, with the tools of the image."""


class PytorchPlugin(JobPlugin):
    """Arguments: `master` (master), `worker` (worker): names of tasks; `port` (23456).

    With `wait-master-enabled` (false) workers start once the master listens, or fail after `wait-master-timeout` (300
    seconds); `wait-master-image` (busybox:1.36.1) is the image of the init container.
    """

    name = "pytorch"
    needs = ("svc",)

    def __init__(self, arguments: Sequence[str]) -> None:
        chosen = parse_flags(arguments, _DEFAULTS, "pytorch")
        self._master, self._worker = str(chosen["master"]), str(chosen["worker"])
        self._port = parse_port(chosen, "port", "pytorch")
        self._waits = bool(chosen["wait-master-enabled"])
        self._seconds = int(chosen["wait-master-timeout"])
        self._image = str(chosen["wait-master-image"])
        if self._seconds < 1:
            raise PluginArgumentError(f"pytorch: --wait-master-timeout takes seconds, at least 1, not {self._seconds}")

    def warnings(self, job: Job) -> Sequence[str]:
        """Warn if the master's task is missing, or if no task is the worker's."""
        if find_task(job, self._master) is None:
            return (
                f"there is no task {self._master}, so no pod gets MASTER_ADDR; name a task so, or give --master=TASK",
            )
        if len(job.spec.tasks) > 1 and find_task(job, self._worker) is None:
            return (f"there is no task {self._worker}, so no worker has a RANK; name a task so, or give --worker=TASK",)
        return ()

    def on_pod_create(self, pod: Manifest, job: Job, task: TaskSpec, index: int) -> None:
        """Set `MASTER_ADDR`, `MASTER_PORT`, `WORLD_SIZE` and the pod's `RANK`, and add the port.

        Without the master's task pods stay unchanged; a task that is neither master nor worker has no rank.
        """
        if (master := find_task(job, self._master)) is None:
            return
        address = host_of(job, master, 0).address
        size = sum(each.replicas for each in job.spec.tasks if each.name in (self._master, self._worker))
        variables = {"MASTER_ADDR": address, "MASTER_PORT": str(self._port), "WORLD_SIZE": str(size)}
        if task.name == self._worker:
            variables["RANK"] = str(index + 1)
        elif task.name == self._master:
            variables["RANK"] = "0"
        for container in pod["spec"].get("containers") or ():
            add_port(container, PORT_NAME, self._port)
            append_to_list(container, "env", *({"name": name, "value": value} for name, value in variables.items()))
        if self._waits and task.name == self._worker:
            append_to_list(pod["spec"], "initContainers", self._wait_for(address))

    def _wait_for(self, address: str) -> Manifest:
        script = _WAIT_SCRIPT.format(host=address, port=self._port, seconds=self._seconds)
        return {"name": WAIT_CONTAINER, "image": self._image, "command": ["sh", "-c", script]}
