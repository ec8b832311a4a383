"""Schedulers that share a cluster: what each one takes is published on its Lease, and overlaps are reported.

A pod is placed by the scheduler that it names, but any scheduler may select a node: two schedulers that place pods
on one node do not see each other's decisions before these are bound, so they may book the same room twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec
import structlog

from volcanoio.kube.clock import Clock
from volcanoio.kube.errors import ApiError, error_of
from volcanoio.kube.transport import Transport, TransportError
from volcanoio.model.base import ApiObject
from volcanoio.model.kinds import LEASE

NAMES, SELECTOR = "volcanoio.dev/scheduler-names", "volcanoio.dev/node-selector"
"""Annotations of a scheduler's Lease: its names, and the labels of its nodes as KEY:VALUE; both separated by commas."""
_LOG = structlog.get_logger(__name__)


class Share(NamedTuple):
    """What a scheduler takes: pods that name it, and nodes with one of the labels (all nodes without labels)."""

    names: frozenset[str]
    labels: frozenset[tuple[str, str]] = frozenset()

    @classmethod
    def of(cls, annotations: Mapping[str, str]) -> Share | None:
        """Return the share that a Lease describes, None if it is not that of a scheduler."""
        if not (names := _entries(annotations.get(NAMES, ""))):
            return None
        labels = (entry.partition(":") for entry in _entries(annotations.get(SELECTOR, "")))
        return cls(names, frozenset((key, value) for key, _, value in labels))

    def annotations(self) -> dict[str, str]:
        """Return the annotations that describe this share."""
        return {NAMES: ",".join(sorted(self.names)), SELECTOR: ",".join(sorted(map(":".join, self.labels)))}

    def has(self, node: ApiObject) -> bool:
        """Return whether a node belongs to this share."""
        labels = node.metadata.labels
        return not self.labels or any(labels.get(key) == value for key, value in self.labels)


def _entries(text: str) -> frozenset[str]:
    return frozenset(entry.strip() for entry in text.split(",") if entry.strip())


class _LeaseSpec(msgspec.Struct, rename="camel"):
    holder_identity: str | None = None


class _LeaseMeta(msgspec.Struct):
    name: str
    annotations: dict[str, str] = {}


class _Lease(msgspec.Struct):
    metadata: _LeaseMeta
    spec: _LeaseSpec = msgspec.field(default_factory=_LeaseSpec)


class _LeaseList(msgspec.Struct):
    items: list[_Lease]


CHECK_INTERVAL = 60.0
"""Seconds between two looks for overlaps."""


class OverlapReporter:
    """Logs a warning about each other scheduler with a Lease in `namespace` that takes our pods or our nodes.

    `lease` is our own Lease, "" for none; `nodes` returns the nodes of the cluster. Each finding is logged once while
    it holds.
    """

    def __init__(
        self,
        transport: Transport,
        share: Share,
        *,
        namespace: str,
        lease: str,
        nodes: Callable[[], Iterable[ApiObject]],
    ) -> None:
        self._transport = transport
        self._share = share
        self._path = LEASE.path(namespace)
        self._lease = lease
        self._nodes = nodes
        self._reported: frozenset[Overlap] = frozenset()
        self._failed = ""

    async def run(self, clock: Clock) -> None:
        """Look now and periodically, until cancelled."""
        while True:
            await self.look()
            await clock.idle(CHECK_INTERVAL)

    async def look(self) -> None:
        """Look once; errors are only logged, because this is advice."""
        try:
            response = await self._transport.request("GET", self._path)
            if not response.ok:
                raise error_of(response)
            leases = msgspec.json.decode(response.body, type=_LeaseList).items
        except (ApiError, TransportError, msgspec.DecodeError) as error:
            if str(error) != self._failed:
                _LOG.warning("cannot look for other schedulers", path=self._path, error=str(error))
            self._failed = str(error)
            return
        nodes = tuple(self._nodes())
        found = frozenset(
            overlap for lease in leases if (overlap := self._overlap(lease, nodes)) and (overlap.names or overlap.nodes)
        )
        for overlap in sorted(found - self._reported):
            overlap.warn()
        self._reported, self._failed = found, ""

    def _overlap(self, lease: _Lease, nodes: Sequence[ApiObject]) -> Overlap | None:
        other = Share.of(lease.metadata.annotations)
        if other is None or lease.metadata.name == self._lease or not lease.spec.holder_identity:
            return None
        return Overlap(
            lease.metadata.name,
            tuple(sorted(self._share.names & other.names)),
            sum(self._share.has(node) and other.has(node) for node in nodes),
            other.annotations()[SELECTOR],
        )


class Overlap(NamedTuple):
    """What we have in common with another scheduler: names of schedulers and a number of nodes."""

    lease: str
    names: tuple[str, ...]
    nodes: int
    selector: str

    def warn(self) -> None:
        """Log it, with the next step."""
        if self.names:
            _LOG.warning(
                "another scheduler places pods with the same schedulerName, which both may bind; give each its own "
                "--scheduler-name, or the same --leader-elect-resource-name to make one a standby",
                other=self.lease,
                scheduler_names=self.names,
            )
        if self.nodes:
            _LOG.warning(
                "another scheduler places pods on some of our nodes, which both may fill; give the two --node-selector "
                "labels of which no node has both",
                other=self.lease,
                nodes=self.nodes,
                node_selector=self.selector or "all nodes",
            )
