"""Plugin resourcequota: jobs are enqueued within the quotas of their namespace; names are compared literally.

Unlike Volcano, jobs that were enqueued in an earlier session count too, in proportion to their missing pods.
"""

from __future__ import annotations

from tests.oracle.cluster import Job
from tests.oracle.plugins.plugin import Plugin
from volcanoio.model.resources import amounts


class ResourceQuotas(Plugin):
    def open(self) -> None:
        self.admitted: list[tuple[Job, int]] = []
        """Jobs with how many of their members count."""
        for job in self.session.cluster.jobs:
            if job.phase == "Inqueue" and job.minimum > len(job.tasks):
                self.admitted.append((job, job.minimum - len(job.tasks)))

    def enqueueable(self, job: Job) -> int:
        for quota in self.session.cluster.others.get("ResourceQuota", []):
            if quota["metadata"]["namespace"] != job.namespace:
                continue
            hard, used = amounts(quota["status"]["hard"]), amounts(quota["status"].get("used", {}))
            for name, amount in amounts(job.given).items():
                waiting = sum(_part(other, members, name) for other, members in self.admitted)
                if name in hard and used.get(name, 0) + waiting + amount > hard[name]:
                    return -1
        return 1

    def enqueued(self, job: Job) -> None:
        self.admitted.append((job, max(job.minimum, 1)))


def _part(job: Job, members: int, name: str) -> int:
    """Return the part of minResources for some of the minimum members, rounded up."""
    return -(-amounts(job.given).get(name, 0) * members // max(job.minimum, 1))
