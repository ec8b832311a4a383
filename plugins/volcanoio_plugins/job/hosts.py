"""How the pods of a job are named on the network, and how containers are changed; shared by the plugins here.

Source: Volcano, pkg/controllers/job/helpers/helpers.go.
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
        """The name other pods reach it by."""
        return f"{self.name}.{self.domain}"


def hosts(job: Job, task: TaskSpec) -> list[Host]:
    """The hosts of a task by its replicas; a template with its own hostname gives one host only, as in Volcano."""
    spec: Manifest = task.template.get("spec") or {}
    domain = spec.get("subdomain") or job.metadata.name
    if own := spec.get("hostname"):
        return [Host(own, domain)]
    return [Host(f"{job.metadata.name}-{task.name}-{index}", domain) for index in range(task.replicas)]


def containers(pod: Manifest) -> Iterator[Manifest]:
    """Every container of a pod, init containers too."""
    for kind in ("containers", "initContainers"):
        yield from pod["spec"].get(kind) or ()


def append(container: Manifest, field: str, *items: Manifest) -> None:
    """Add items to a list field of a container or pod spec."""
    container[field] = [*(container.get(field) or ()), *items]
