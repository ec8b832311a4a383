"""What job plugins ask of a job's pods and do to them: names on the network, containers, variables, ports.

Source of the names: Volcano, pkg/controllers/job/helpers/helpers.go.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from volcanoio.model.base import Manifest
from volcanoio.model.batch import Job, TaskSpec


class Host(msgspec.Struct, frozen=True):
    """One pod: `name` inside `domain`, the name of the job's headless service."""

    name: str
    domain: str

    @property
    def address(self) -> str:
        """The name other pods reach it by, where the job has the svc plugin."""
        return f"{self.name}.{self.domain}"


def task_named(job: Job, name: str) -> TaskSpec | None:
    """The task of that name."""
    return next((task for task in job.spec.tasks if task.name == name), None)


def own_hostname(task: TaskSpec) -> str:
    """The hostname that the template sets for all pods of the task; "" where each has its own."""
    return _spec(task).get("hostname") or ""


def domain_of(job: Job, task: TaskSpec) -> str:
    """The subdomain of the task's pods."""
    return _spec(task).get("subdomain") or job.metadata.name


def host_of(job: Job, task: TaskSpec, index: int) -> Host:
    """One pod of a task by its index."""
    return Host(own_hostname(task) or f"{job.metadata.name}-{task.name}-{index}", domain_of(job, task))


def hosts(job: Job, task: TaskSpec) -> list[Host]:
    """The hosts of a task by its replicas; a template with its own hostname gives one host only, as in Volcano."""
    domain = domain_of(job, task)
    if own := own_hostname(task):
        return [Host(own, domain)] if task.replicas > 0 else []
    return [Host(f"{job.metadata.name}-{task.name}-{index}", domain) for index in range(task.replicas)]


def addresses(job: Job, task: TaskSpec) -> list[str]:
    """The addresses of `hosts`, for tasks of many thousand pods: half of what a loop over them takes."""
    before, behind = f"{job.metadata.name}-{task.name}-", f".{domain_of(job, task)}"
    if own := own_hostname(task):
        return [own + behind] if task.replicas > 0 else []
    if task.replicas < 1:
        return []
    text = f"{behind}\n{before}".join(map(str, range(task.replicas)))
    return f"{before}{text}{behind}".split("\n")


def containers(pod: Manifest) -> Iterator[Manifest]:
    """Every container of a pod or pod template, init containers too."""
    spec: Manifest = pod.get("spec") or {}
    for kind in ("containers", "initContainers"):
        yield from spec.get(kind) or ()


def append(container: Manifest, field: str, *items: Manifest) -> None:
    """Add items to a list field of a container or pod spec."""
    container[field] = [*(container.get(field) or ()), *items]


def open_port(container: Manifest, name: str, number: int) -> None:
    """Add a container port under that name, unless the number is open already."""
    if all(port.get("containerPort") != number for port in container.get("ports") or ()):
        append(container, "ports", {"name": name, "containerPort": number})


def _spec(task: TaskSpec) -> Manifest:
    spec: Manifest = task.template.get("spec") or {}
    return spec
