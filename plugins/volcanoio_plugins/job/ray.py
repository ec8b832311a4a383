"""`ray`: a Ray cluster of a head and its workers.

Source: Volcano, pkg/controllers/job/plugins/distributed-framework/ray/ray.go.
"""

from collections.abc import Sequence

from volcanoio.framework.arguments import parse_flags
from volcanoio.framework.jobpods import add_port, containers, find_task, host_of
from volcanoio.framework.jobs import JobPlugin, OwnedObject, parse_port
from volcanoio.model import kinds, names
from volcanoio.model.base import Manifest
from volcanoio.model.batch import Job, TaskSpec

GCS, DASHBOARD, CLIENT = "gcs", "dashboard", "client-server"
_DEFAULTS: dict[str, str | int | bool] = {
    "head": "head",
    "headContainer": "head",
    "worker": "worker",
    "workerContainer": "worker",
    "port": 6379,
    "dashboardPort": 8265,
    "clientPort": 10001,
}


class RayPlugin(JobPlugin):
    """Arguments: `head`, `worker`: names of tasks; `headContainer`, `workerContainer`: names of their Ray containers.

    `port` (6379) is the cluster's, `dashboardPort` (8265) and `clientPort` (10001) are the head's.
    """

    name = "ray"
    needs = ("svc",)

    def __init__(self, arguments: Sequence[str]) -> None:
        chosen = parse_flags(arguments, _DEFAULTS, "ray")
        self._head, self._worker = str(chosen["head"]), str(chosen["worker"])
        self._head_container, self._worker_container = str(chosen["headContainer"]), str(chosen["workerContainer"])
        self._ports = {
            GCS: parse_port(chosen, "port", "ray"),
            DASHBOARD: parse_port(chosen, "dashboardPort", "ray"),
            CLIENT: parse_port(chosen, "clientPort", "ray"),
        }

    def problems(self, job: Job) -> Sequence[str]:
        """Refuse a cluster without a head."""
        if find_task(job, self._head) is not None:
            return ()
        return (f"the specified ray head task was not found: {self._head}; name a task so, or give --head=TASK",)

    def warnings(self, job: Job) -> Sequence[str]:
        """Warn of missing tasks and Ray containers: their commands are not changed."""
        found = []
        for role, name, container in (
            ("head", self._head, self._head_container),
            ("worker", self._worker, self._worker_container),
        ):
            if (task := find_task(job, name)) is None and len(job.spec.tasks) > 1:
                found.append(f"there is no task {name}, so no pod is a {role}; name a task so, or give --{role}=TASK")
            elif task is not None and container not in {each.get("name") for each in containers(task.template)}:
                found.append(
                    f"task {name} has no container {container}, so nothing starts ray in it; name a container so, or "
                    f"give --{role}Container=NAME"
                )
        return found

    def owned_objects(self, job: Job) -> Sequence[OwnedObject]:
        """Return the Service `<job>-head-svc` with the head's ports."""
        selector = {
            names.JOB_NAME: job.metadata.name,
            names.JOB_NAMESPACE: job.metadata.namespace,
            names.TASK_SPEC: self._head,
        }
        ports = [
            {"name": name, "port": number, "targetPort": name, "protocol": "TCP"}
            for name, number in self._ports.items()
        ]
        manifest = {
            "apiVersion": kinds.SERVICE.api_version,
            "kind": kinds.SERVICE.kind,
            "metadata": {"name": f"{job.metadata.name}-head-svc"},
            "spec": {"type": "ClusterIP", "selector": selector, "ports": ports},
        }
        return (OwnedObject(resource=kinds.SERVICE.resource, manifest=manifest),)

    def on_pod_create(self, pod: Manifest, job: Job, task: TaskSpec, index: int) -> None:  # noqa: ARG002 - as declared
        """Replace the command of the Ray container so that it starts Ray."""
        if (head := find_task(job, self._head)) is None:
            return
        for container in pod["spec"].get("containers") or ():
            if task.name == self._head and container.get("name") == self._head_container:
                for name, number in self._ports.items():
                    add_port(container, name, number)
                container["command"] = ["sh", "-c", self._start_head()]
            elif task.name == self._worker and container.get("name") == self._worker_container:
                address = f"{host_of(job, head, 0).address}:{self._ports[GCS]}"
                container["command"] = ["sh", "-c", f"ray start --block --address={address}"]

    def _start_head(self) -> str:
        return (
            f"ray start --head --block --dashboard-host=0.0.0.0 --port={self._ports[GCS]} "
            f"--dashboard-port={self._ports[DASHBOARD]} --ray-client-server-port={self._ports[CLIENT]}"
        )
