"""namespace-fairshare (ours): in a queue the namespace with the smaller dominant share over its weight goes first.

Patience is not here: it needs a namespace that waits for long.
"""

from __future__ import annotations

import math

from tests.oracle.cluster import ALLOCATED, Amounts, Job, total
from tests.oracle.plugins.demand import admitted, minimum
from tests.oracle.plugins.plugin import Plugin
from volcanoio.model.names import FAIRSHARE_WEIGHT


class NamespaceFairshare(Plugin):
    def open(self) -> None:
        cluster = self.session.cluster
        self.weights = {
            each["metadata"]["name"]: _weight(each["metadata"].get("annotations", {}).get(FAIRSHARE_WEIGHT, ""))
            for each in cluster.others.get("Namespace", [])
        }
        self.waiting = [(job.queue, job.namespace, admitted(job)) for job in cluster.jobs]

    def job_key(self, job: Job) -> float:
        """What waits for nodes counts for a job that waits to be admitted."""
        alike = [other for other in self.session.cluster.queues[job.queue].jobs if other.namespace == job.namespace]
        parts: list[Amounts] = [other.sum(*ALLOCATED, "pipelined") for other in alike]
        if job.phase == "Pending":
            parts += [
                demand for queue, namespace, demand in self.waiting if (queue, namespace) == (job.queue, job.namespace)
            ]
        held = total(parts)
        shares = [held.get(name, 0) / amount for name, amount in self.session.total.items() if amount > 0]
        return round(max(shares, default=0.0) / self.weights.get(job.namespace, 1.0), 9)

    def enqueued(self, job: Job) -> None:
        self.waiting.append((job.queue, job.namespace, minimum(job)))


def _weight(text: str) -> float:
    """A positive number; anything else is 1."""
    try:
        weight = float(text)
    except ValueError:
        return 1.0
    return weight if math.isfinite(weight) and weight > 0 else 1.0
