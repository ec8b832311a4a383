"""`ray`: a Ray cluster of a head and its workers.

Source: Volcano, pkg/controllers/job/plugins/distributed-framework/ray/ray.go.
"""

from __future__ import annotations

from collections.abc import Sequence

from volcanoio.framework.arguments import flags
from volcanoio.framework.jobpods import containers, host_of, open_port, task_named
from volcanoio.framework.jobs import JobPlugin, Support, port
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
    """Arguments: `head`, `worker`: names of tasks; `headContainer`, `workerContainer`: of the container that is Ray.

    `port` (6379) is the cluster's own, `dashboardPort` (8265) and `clientPort` (10001) are the head's.
    """

    name = "ray"
    needs = ("svc",)

    def __init__(self, arguments: Sequence[str]) -> None:
        chosen = flags(arguments, _DEFAULTS, "ray")
        self._head, self._worker = str(chosen["head"]), str(chosen["worker"])
        self._head_container, self._worker_container = str(chosen["headContainer"]), str(chosen["workerContainer"])
        self._ports = {
            GCS: port(chosen, "port", "ray"),
            DASHBOARD: port(chosen, "dashboardPort", "ray"),
            CLIENT: port(chosen, "clientPort", "ray"),
        }

    def problems(self, job: Job) -> Sequence[str]:
        """A cluster without a head."""
        if task_named(job, self._head) is not None:
            return ()
        return (f"the specified ray head task was not found: {self._head}; name a task so, or give --head=TASK",)

    def hints(self, job: Job) -> Sequence[str]:
        """Tasks whose containers are not Ray: their commands stay as they are."""
        found = []
        for role, name, container in (
            ("head", self._head, self._head_container),
            ("worker", self._worker, self._worker_container),
        ):
            task = task_named(job, name)
            if task is None and len(job.spec.tasks) > 1:
                found.append(f"there is no task {name}, so no pod is a {role}; name a task so, or give --{role}=TASK")
            elif task is not None and container not in {each.get("name") for each in containers(task.template)}:
                found.append(
                    f"task {name} has no container {container}, so nothing starts ray in it; name a container so, or "
                    f"give --{role}Container=NAME"
                )
        return found

    def supports(self, job: Job) -> Sequence[Support]:
        """The Service `<job>-head-svc` of the head's ports."""
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
        return (Support(resource=kinds.SERVICE.resource, manifest=manifest),)

    def on_pod_create(self, pod: Manifest, job: Job, task: TaskSpec, index: int) -> None:  # noqa: ARG002 - as declared
        """Start Ray in the container of that name: its command is replaced."""
        head = task_named(job, self._head)
        if head is None:
            return
        for container in pod["spec"].get("containers") or ():
            if task.name == self._head and container.get("name") == self._head_container:
                for name, number in self._ports.items():
                    open_port(container, name, number)
                container["command"] = ["sh", "-c", self._start_head()]
            elif task.name == self._worker and container.get("name") == self._worker_container:
                address = f"{host_of(job, head, 0).address}:{self._ports[GCS]}"
                container["command"] = ["sh", "-c", f"ray start --block --address={address}"]

    def _start_head(self) -> str:
        return (
            f"ray start --head --block --dashboard-host=0.0.0.0 --port={self._ports[GCS]} "
            f"--dashboard-port={self._ports[DASHBOARD]} --ray-client-server-port={self._ports[CLIENT]}"
        )
