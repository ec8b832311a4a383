"""The pods of a Job: its gang members, and their host names, containers, variables and ports.

The job plugins are written with these functions. Sources: Volcano, pkg/controllers/job/helpers/helpers.go (names) and
pkg/controllers/job/job_controller_actions.go (gang members).
"""

from collections.abc import Iterator, Mapping

import msgspec

from volcanoio.model.base import Manifest
from volcanoio.model.batch import Job, TaskSpec


def priority_class_of(task: TaskSpec) -> str:
    """Return the priority class of the task's pods, from the template."""
    return str((task.template.get("spec") or {}).get("priorityClassName") or "")


def gang_members(job: Job, priorities: Mapping[str, int]) -> dict[str, int]:
    """Return how many pods of each task belong to the job's `minAvailable`, highest priority class first.

    `priorities` are values of priority classes by name; tasks of equal priority keep the order of the spec.
    """
    tasks = sorted(job.spec.tasks, key=lambda task: -priorities.get(priority_class_of(task), 0))
    if (minimum := job.spec.min_available) < sum(task.min_available or 0 for task in tasks):
        taken = [0] * len(tasks)
    else:
        taken = []
        for task in tasks:
            taken.append(min(task.min_available or 0, minimum - sum(taken)))
    for place, task in enumerate(tasks):
        taken[place] += max(0, min(task.replicas - taken[place], minimum - sum(taken)))
    return {task.name: pods for task, pods in zip(tasks, taken, strict=True)}


class Host(msgspec.Struct, frozen=True):
    """One pod's host name: `name` inside `domain`, the name of the job's headless service."""

    name: str
    domain: str

    @property
    def address(self) -> str:
        """The name under which other pods reach it, if the job has the svc plugin."""
        return f"{self.name}.{self.domain}"


def find_task(job: Job, name: str) -> TaskSpec | None:
    """Return the task of that name, None if there is none."""
    return next((task for task in job.spec.tasks if task.name == name), None)


def own_hostname(task: TaskSpec) -> str:
    """Return the hostname that the template sets for all pods of the task, "" if each pod has its own."""
    return _spec(task).get("hostname") or ""


def domain_of(job: Job, task: TaskSpec) -> str:
    """Return the subdomain of the task's pods."""
    return _spec(task).get("subdomain") or job.metadata.name


def host_of(job: Job, task: TaskSpec, index: int) -> Host:
    """Return the host of one pod of a task, by its index."""
    return Host(own_hostname(task) or f"{job.metadata.name}-{task.name}-{index}", domain_of(job, task))


def hosts(job: Job, task: TaskSpec) -> list[Host]:
    """Return the hosts of a task by its replicas; a template with a hostname gives one host only, as in Volcano."""
    domain = domain_of(job, task)
    if own := own_hostname(task):
        return [Host(own, domain)] if task.replicas > 0 else []
    return [Host(f"{job.metadata.name}-{task.name}-{index}", domain) for index in range(task.replicas)]


def addresses(job: Job, task: TaskSpec) -> list[str]:
    """Return the addresses of `hosts`, in half the time of a loop: tasks may have many thousand pods."""
    before, behind = f"{job.metadata.name}-{task.name}-", f".{domain_of(job, task)}"
    if own := own_hostname(task):
        return [own + behind] if task.replicas > 0 else []
    if task.replicas < 1:
        return []
    text = f"{behind}\n{before}".join(map(str, range(task.replicas)))
    return f"{before}{text}{behind}".split("\n")


def containers(pod: Manifest) -> Iterator[Manifest]:
    """Iterate over all containers of a pod or pod template, init containers too."""
    spec: Manifest = pod.get("spec") or {}
    for kind in ("containers", "initContainers"):
        yield from spec.get(kind) or ()


def append_to_list(container: Manifest, field: str, *items: Manifest) -> None:
    """Append items to a list field of a container or pod spec."""
    container[field] = [*(container.get(field) or ()), *items]


def add_port(container: Manifest, name: str, number: int) -> None:
    """Add a named container port, unless the port number is already there."""
    if all(port.get("containerPort") != number for port in container.get("ports") or ()):
        append_to_list(container, "ports", {"name": name, "containerPort": number})


def _spec(task: TaskSpec) -> Manifest:
    spec: Manifest = task.template.get("spec") or {}
    return spec
