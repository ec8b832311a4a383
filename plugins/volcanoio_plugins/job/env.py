"""`env`: gives each container its index within the task. Source: Volcano, pkg/controllers/job/plugins/env/env.go."""

from collections.abc import Sequence

from volcanoio.framework.arguments import parse_flags
from volcanoio.framework.jobpods import append_to_list, containers
from volcanoio.framework.jobs import JobPlugin
from volcanoio.model.base import Manifest
from volcanoio.model.batch import Job, TaskSpec

VARIABLES = ("VK_TASK_INDEX", "VC_TASK_INDEX")


class EnvPlugin(JobPlugin):
    """Sets `VK_TASK_INDEX` and `VC_TASK_INDEX` in containers and init containers. It has no arguments."""

    name = "env"

    def __init__(self, arguments: Sequence[str]) -> None:
        parse_flags(arguments, {}, "env")

    def on_pod_create(self, pod: Manifest, job: Job, task: TaskSpec, index: int) -> None:  # noqa: ARG002 - as declared
        """Add the two variables."""
        for container in containers(pod):
            append_to_list(container, "env", *({"name": name, "value": str(index)} for name in VARIABLES))
