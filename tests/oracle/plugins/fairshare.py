"""Plugin namespace-fairshare: in a queue, the namespace with the smallest dominant share over its weight is first.

Namespaces with larger shares wait for one that has waited for long. Volcano has no such plugin.
"""

from __future__ import annotations

import math

from tests.oracle.cluster import ALLOCATED, Amounts, Job, total
from tests.oracle.plugins.demand import admitted, minimum
from tests.oracle.plugins.patience import Patience
from tests.oracle.plugins.plugin import Plugin
from tests.oracle.plugins.times import seconds
from volcanoio.model.names import FAIRSHARE_WEIGHT


class NamespaceFairshare(Plugin):
    def open(self) -> None:
        cluster = self.session.cluster
        self.weights = {
            each["metadata"]["name"]: _weight(each["metadata"].get("annotations", {}).get(FAIRSHARE_WEIGHT, ""))
            for each in cluster.others.get("Namespace", [])
        }
        self.waiting = [(job.queue, job.namespace, admitted(job)) for job in cluster.jobs]
        patience: Patience = self.session.memory.setdefault("patience", Patience())
        limit = seconds(self.arguments.get("patience", "60s")) or 0.0
        self.turns = patience.open(cluster.jobs, cluster.nodes, self.held_of, self.session.now, limit)

    def held_of(self, queue: str, namespace: str) -> float:
        """Return the weighted share that a namespace holds of a queue."""
        jobs = [job for job in self.session.cluster.queues[queue].jobs if job.namespace == namespace]
        return self._share([job.sum(*ALLOCATED, "pipelined") for job in jobs], namespace)

    def holds_back(self, job: Job, stage: str) -> bool:
        """Return whether the job must wait for a namespace that has waited for long and has a smaller share."""
        namespace, share = self.turns.get((job.queue, stage), (job.namespace, 0.0))
        return job.namespace != namespace and self.held_of(job.queue, job.namespace) > share

    def valid(self, job: Job) -> bool:
        return not self.holds_back(job, "Inqueue")

    def enqueueable(self, job: Job) -> int:
        return -1 if self.holds_back(job, "Pending") else 0

    def job_key(self, job: Job) -> float:
        """Order by the namespace's share; for a pending job, the demand of enqueued jobs counts too."""
        alike = [other for other in self.session.cluster.queues[job.queue].jobs if other.namespace == job.namespace]
        parts: list[Amounts] = [other.sum(*ALLOCATED, "pipelined") for other in alike]
        if job.phase == "Pending":
            parts += [
                demand for queue, namespace, demand in self.waiting if (queue, namespace) == (job.queue, job.namespace)
            ]
        return self._share(parts, job.namespace)

    def _share(self, parts: list[Amounts], namespace: str) -> float:
        held = total(parts)
        shares = [held.get(name, 0) / amount for name, amount in self.session.total.items() if amount > 0]
        return round(max(shares, default=0.0) / self.weights.get(namespace, 1.0), 9)

    def enqueued(self, job: Job) -> None:
        self.waiting.append((job.queue, job.namespace, minimum(job)))


def _weight(text: str) -> float:
    """Parse a weight; text that is not a positive number is 1."""
    try:
        weight = float(text)
    except ValueError:
        return 1.0
    return weight if math.isfinite(weight) and weight > 0 else 1.0
