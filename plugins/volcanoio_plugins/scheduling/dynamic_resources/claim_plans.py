"""Allocations of claims: how one follows from the devices chosen, and those that are stored, written and planned.

An allocation is planned as a pod is placed, and undone with a discarded statement. It counts as being written from
the commit on, until a watch shows it: watches of pods and of claims have no common order, so a pod may be seen on its
node before its claim is seen allocated.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any
from uuid import UUID, uuid5

import msgspec

from volcanoio.framework.scheduling.sessionview import SessionView, Table
from volcanoio.framework.scheduling.views import TaskStatus
from volcanoio.model import kinds
from volcanoio.model.core import NodeSelector, NodeSelectorTerm, Requirement
from volcanoio.model.dynamic_resources.objects import (
    MAX_CONSUMERS,
    Allocation,
    DeviceResult,
    DeviceResults,
    ResourceClaim,
)
from volcanoio.model.selectors import NAME_FIELD
from volcanoio.model.times import rfc3339
from volcanoio_plugins.scheduling.dynamic_resources.allocator import Chosen, ClaimRequest
from volcanoio_plugins.scheduling.dynamic_resources.device_usage import DeviceUsage

CLAIMS = kinds.RESOURCE_CLAIM.resource
_OWNER = "predicates"
WRITE_SECONDS = 5.0
"""Seconds for which an allocation counts whose pods all wait again: the write may be seen late, or was refused."""


class _Written:
    """An allocation that is being written, for a claim (its uid) and by the binds of pods (their uids).

    A claim that the scheduler makes has no uid yet.
    """

    __slots__ = ("allocation", "claim", "pods", "waiting_since")

    def __init__(self, allocation: Allocation, claim: str, pod: str) -> None:
        self.allocation = allocation
        self.claim = claim
        self.pods = {pod}
        self.waiting_since: float | None = None


class ClaimPlans:
    """Allocations by claim (`namespace/name`), and the devices in use by all of them.

    Call `open` once in a session, and `update` before reading.
    """

    def __init__(self) -> None:
        self.usage = DeviceUsage()
        self.session = 0
        self._view: SessionView
        self._table: Table
        self._consumers: Table
        """Per claim the number of tasks placed in this session that use it."""
        self._table_seen = -1
        self._stored: dict[str, Allocation] = {}
        self._written: dict[str, _Written] = {}
        self._planned: dict[str, Allocation] = {}
        self._claims_seen = -1

    def open(self, session: SessionView, number: int) -> None:
        """Start the session of that number: plans of the last one that were not committed are dropped."""
        self.session = number
        self._view = session
        for allocation in self._planned.values():
            self.usage.remove(allocation)
        self._planned.clear()
        self._table = session.table(_OWNER, "allocations of claims")
        self._table_seen = self._table.version
        self._consumers = session.table(_OWNER, "consumers of claims")
        self._read_claims()
        self._read_steps()
        for key in list(self._written):
            if not self._is_pending_write(key):
                self.usage.remove(self._written.pop(key).allocation)

    @property
    def is_writing(self) -> bool:
        """Whether an allocation is being written."""
        return bool(self._written)

    def update(self) -> None:
        """Drop plans that were undone since."""
        if self._table.version != self._table_seen:
            self._table_seen = self._table.version
            known = self._table.values
            for key in [key for key in self._planned if key not in known]:
                self.usage.remove(self._planned.pop(key))

    def allocation_of(self, key: str) -> Allocation | None:
        """Return the allocation of a claim, None if it has none."""
        if (stored := self._stored.get(key)) is not None:
            return stored
        if (written := self._written.get(key)) is not None:
            return written.allocation
        return self._planned.get(key)

    def is_stored(self, key: str) -> bool:
        """Return whether the allocation of a claim is stored."""
        return key in self._stored

    def is_full(self, key: str) -> bool:
        """Return whether as many pods use a claim as may."""
        claim = self._view.objects(CLAIMS).get(key)
        reserved = len(claim.status.reserved_for) if isinstance(claim, ResourceClaim) else 0
        return reserved + self._consumers.get(key) >= MAX_CONSUMERS

    def use(self, key: str) -> None:
        """Count a placed task that uses a claim."""
        self._consumers.add(key, 1)

    def plan(self, key: str, allocation: Allocation) -> None:
        """Plan the allocation of a claim, until it is undone or committed."""
        self._table.set(key, 1)
        self._table_seen = self._table.version
        self._planned[key] = allocation
        self.usage.add(allocation)

    def commit(self, key: str, claim: ResourceClaim, pod: str) -> Allocation | None:
        """Return the allocation that the bind of a pod writes for a claim, None if there is none to write."""
        self.update()
        if (written := self._written.get(key)) is not None:
            written.pods.add(pod)
            return written.allocation
        if (allocation := self._planned.pop(key, None)) is not None:
            self._written[key] = _Written(allocation, claim.metadata.uid, pod)
        return allocation

    def _read_claims(self) -> None:
        """Follow changes of claims."""
        session = self._view
        version, seen = session.version(CLAIMS), self._claims_seen
        if version == seen:
            return
        self._claims_seen = version
        claims = session.objects(CLAIMS)
        names: Collection[str] | None = session.changed_since(CLAIMS, seen) if seen >= 0 else None
        for key in dict.fromkeys((*self._stored, *claims) if names is None else names):
            claim = claims.get(key)
            before = self._stored.get(key)
            after = claim.status.allocation if isinstance(claim, ResourceClaim) else None
            if before == after:
                continue
            if before is not None:
                self.usage.remove(self._stored.pop(key))
            if after is not None:
                self._stored[key] = after
                self.usage.add(after)

    def _read_steps(self) -> None:
        """Count what binds in progress write, also those that another object of this class decided."""
        for pod, steps in self._view.prebinding.items():
            for step in steps:
                key = f"{step.namespace}/{step.name}"
                if step.resource == CLAIMS and key not in self._written and key not in self._stored:
                    content: Mapping[str, object] = step.patch.get("status", {})
                    if (manifest := content.get("allocation")) is not None:
                        allocation = msgspec.convert(manifest, Allocation)
                        self._written[key] = _Written(allocation, step.uid, pod)
                        self.usage.add(allocation)

    def _is_pending_write(self, key: str) -> bool:
        """Return whether an allocation may be written and is not seen yet."""
        written = self._written[key]
        claim = self._view.objects(CLAIMS).get(key)
        if key in self._stored:
            return False
        if written.claim and (claim is None or claim.metadata.uid != written.claim):
            return False
        status_of = self._view.device_claims.status_of
        statuses = {status for pod in written.pods if (status := status_of(pod)) is not None}
        if statuses - {TaskStatus.PENDING}:
            written.waiting_since = None
            return True
        if written.waiting_since is None:
            written.waiting_since = self._view.now
        return self._view.now < written.waiting_since + WRITE_SECONDS


_SHARES = UUID("5f0a4b8e-6c0e-4a51-9a35-1d4a2f0f6a77")
"""Namespace of the ids of shares: an id follows from the claim and the device, so that a replay decides the same."""


def allocation_of(
    claim: ResourceClaim, request: ClaimRequest, chosen: Sequence[Chosen], node: str, now: float
) -> Allocation:
    """Return the allocation of a claim for the devices chosen on a node."""
    results = tuple(_result(claim, at, one) for at, one in enumerate(chosen))
    config = (*_class_config(request, chosen), *_claim_config(claim, chosen))
    return Allocation(
        devices=DeviceResults(results=results, config=config),
        node_selector=_node_selector(chosen, node),
        allocation_timestamp=rfc3339(now),
    )


def _result(claim: ResourceClaim, at: int, chosen: Chosen) -> DeviceResult:
    driver, pool, device = chosen.device.id
    request, spec = chosen.alternative.request, chosen.device.spec
    owner = claim.metadata.uid or claim.metadata.key
    share = uuid5(_SHARES, f"{owner}/{at}/{driver}/{pool}/{device}")
    return DeviceResult(
        request=chosen.alternative.name,
        driver=driver,
        pool=pool,
        device=device,
        admin_access=request.admin_access or None,
        tolerations=request.tolerations,
        share_id=None if chosen.consumed is None else str(share),
        consumed_capacity=dict(chosen.consumed or {}),
        binding_conditions=spec.binding_conditions,
        binding_failure_conditions=spec.binding_failure_conditions,
    )


def _class_config(request: ClaimRequest, chosen: Sequence[Chosen]) -> Iterator[dict[str, Any]]:
    """Yield the parameters of the classes of chosen devices, each with the requests that it is for."""
    used = {one.alternative.name for one in chosen}
    names_by_class: dict[str, list[str]] = {}
    config_by_class: dict[str, tuple[dict[str, Any], ...]] = {}
    for alternatives in request.requests:
        for alternative in alternatives:
            if alternative.name in used:
                name = alternative.device_class.metadata.name
                names_by_class.setdefault(name, []).append(alternative.name)
                config_by_class[name] = alternative.device_class.spec.config
    for name, requests in names_by_class.items():
        for config in config_by_class[name]:
            yield {"source": "FromClass", "requests": requests, **config}


def _claim_config(claim: ResourceClaim, chosen: Sequence[Chosen]) -> Iterator[dict[str, Any]]:
    """Yield the parameters of a claim that are for some chosen device."""
    used = {name for one in chosen for name in (one.alternative.name, one.alternative.name.partition("/")[0])}
    for config in claim.spec.devices.config:
        requests = config.get("requests") or []
        if not requests or not used.isdisjoint(requests):
            yield {"source": "FromClaim", **config}


def _node_selector(chosen: Sequence[Chosen], node: str) -> NodeSelector | None:
    """Return the nodes on which the devices can be used, None for all nodes."""
    expressions: list[Requirement] = []
    fields: list[Requirement] = []
    for one in chosen:
        reach = one.device.reach
        if reach.node or one.device.spec.binds_to_node:
            fields, expressions = [Requirement(key=NAME_FIELD, operator="In", values=(node,))], []
            break
        if reach.selector is not None:
            for term in reach.selector.node_selector_terms:
                fields.extend(each for each in term.match_fields if each not in fields)
                expressions.extend(each for each in term.match_expressions if each not in expressions)
    if not fields and not expressions:
        return None
    term = NodeSelectorTerm(match_expressions=tuple(expressions), match_fields=tuple(fields))
    return NodeSelector(node_selector_terms=(term,))
