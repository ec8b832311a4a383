"""Plugin nodeorder: Kubernetes' scorers, each 0 to 100 times its weight (Volcano: pkg/scheduler/plugins/nodeorder).

Each scorer is in the module of `kubernetes` that is named after kube-scheduler's plugin: `noderesources`,
`nodeaffinity` (with taints), `imagelocality`, `interpodaffinity` and `podtopologyspread`.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from volcanoio.framework.arguments import convert
from volcanoio.framework.scheduling.points import Checkpoints, Scorer
from volcanoio.framework.scheduling.sessionview import SessionView
from volcanoio.framework.scheduling.views import Job, Task
from volcanoio.model import kinds
from volcanoio_plugins.scheduling.kubernetes.imagelocality import ImageScorer
from volcanoio_plugins.scheduling.kubernetes.interpodaffinity import PodAffinityScorer
from volcanoio_plugins.scheduling.kubernetes.nodeaffinity import AffinityScorer, TaintScorer
from volcanoio_plugins.scheduling.kubernetes.nodeindex import NodeIndex
from volcanoio_plugins.scheduling.kubernetes.noderesources import UsageScorer
from volcanoio_plugins.scheduling.kubernetes.podtopologyspread import SpreadScorer


class NodeorderArguments(msgspec.Struct, frozen=True):
    """Weights; 0 disables a scorer."""

    least: int = msgspec.field(default=1, name="leastrequested.weight")
    most: int = msgspec.field(default=0, name="mostrequested.weight")
    balanced: int = msgspec.field(default=1, name="balancedresource.weight")
    affinity: int = msgspec.field(default=2, name="nodeaffinity.weight")
    taints: int = msgspec.field(default=3, name="tainttoleration.weight")
    images: int = msgspec.field(default=1, name="imagelocality.weight")
    pod_affinity: int = msgspec.field(default=2, name="podaffinity.weight")
    spread: int = msgspec.field(default=2, name="podtopologyspread.weight")


class Nodeorder:
    """The scorers with a weight."""

    name = "nodeorder"
    watches = (kinds.NAMESPACE.resource,)

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        weights = convert(arguments, NodeorderArguments, self.name)
        self._index = index = NodeIndex()
        usage = UsageScorer(least=weights.least, most=weights.most, even=weights.balanced)
        kinds_of = (
            (weights.affinity, AffinityScorer),
            (weights.taints, TaintScorer),
            (weights.pod_affinity, PodAffinityScorer),
            (weights.spread, SpreadScorer),
        )
        scorers = [kind(index, weight) for weight, kind in kinds_of if weight]
        self._images = ImageScorer(self.name, weights.images) if weights.images else None
        self._has_images = False
        """Whether any node ever reported images: before, no task has a trait."""
        self.scorers: list[Scorer] = [usage, *scorers, *([self._images] if self._images else ())]

    @property
    def has_traits(self) -> bool:
        """Whether any node ever reported images."""
        return self._has_images

    def open(self, session: SessionView) -> Checkpoints:
        """Update nodes, and their images once any node reports some."""
        self._index.open(session)
        yield from self._index.prepare(session.pods.topology_keys)
        if self._images is not None and (self._has_images or self._index.update().has_images):
            self._has_images = True
            yield from self._images.open(session)

    def trait(self, task: Task, job: Job) -> str:  # noqa: ARG002 - the images are those of the pod
        """Return the images of the task, as the image scorer groups them."""
        return self._images.trait(task) if self._images is not None else ""
