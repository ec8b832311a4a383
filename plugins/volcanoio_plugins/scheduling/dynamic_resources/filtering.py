"""Kubernetes' filter DynamicResources: nodes on which the claims of a pod are allocated, or can be.

Source: pkg/scheduler/framework/plugins/dynamicresources. Devices are chosen in the session, as a pod is placed; the
allocation and the reservation for the pod are written before its bind (`steps`).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from volcanoio.framework.scheduling.verdicts import Depends, Feasibility
from volcanoio.framework.scheduling.views import DeviceClaim, Nodes, Shape, Task, TaskStatus
from volcanoio.framework.scheduling_effects import PreBindStep
from volcanoio.model import kinds
from volcanoio.model.base import ObjectMeta
from volcanoio.model.dynamic_resources.extended_resources import ANNOTATION, ExtendedRequests, extended_requests
from volcanoio.model.dynamic_resources.objects import (
    FINALIZER,
    ClaimedDevices,
    DeviceClass,
    ResourceClaim,
    ResourceClaimSpec,
)
from volcanoio_plugins.scheduling.dynamic_resources import claim_steps
from volcanoio_plugins.scheduling.dynamic_resources.allocator import (
    AllocationError,
    ClaimRequest,
    Search,
    requested,
)
from volcanoio_plugins.scheduling.dynamic_resources.binding_conditions import has_failed
from volcanoio_plugins.scheduling.dynamic_resources.claim_plans import CLAIMS, ClaimPlans, allocation_of
from volcanoio_plugins.scheduling.dynamic_resources.inventory import SLICES, Inventory
from volcanoio_plugins.scheduling.kubernetes.nodeindex import Mask, NodeIndex

NOT_HERE = "resourceclaim not available on the node"
IN_USE = "resourceclaim in use"
CLASSES = kinds.DEVICE_CLASS.resource
STEPS_PER_SECOND = 1000
"""Steps of a search that stand for one second of `dynamicresources.filterTimeoutSeconds`: a decision never depends on
the speed of the machine."""
MAX_CACHED = 512
"""Number of distinct demands for which the feasible nodes are cached."""
_DECODE = msgspec.json.Decoder(ClaimedDevices)


class _Nodes:
    """The nodes on which some claims can be allocated: `codes` has 0 for these, else the index of a text."""

    def __init__(self, claims: tuple[ClaimRequest, ...], size: int, seen: int) -> None:
        self.claims = claims
        self.codes: NDArray[np.int16] = np.zeros(size, np.int16)
        self.texts: list[str] = [""]
        self.seen = seen
        """The version of the usage that is included."""

    def set(self, row: int, text: str) -> None:
        """Set why the claims cannot be allocated on a node, "" if they can."""
        if text not in self.texts:
            self.texts.append(text)
        self.codes[row] = self.texts.index(text)


class DynamicResources:
    """Filters nodes by the claims of pods, and allocates devices as pods are placed."""

    watches: tuple[str, ...] = (CLASSES, CLAIMS, SLICES)
    applies_to = ("device_claims",)

    def __init__(self, index: NodeIndex, timeout: float = 10.0) -> None:
        self._index = index
        self._max_steps = int(timeout * STEPS_PER_SECOND)
        self._inventory = Inventory(index)
        self._plans = ClaimPlans()
        self._nodes: dict[tuple[bytes, ...], _Nodes] = {}
        self._requests: dict[bytes, ClaimRequest | AllocationError] = {}
        self._generation = -1
        self._classes_seen = -1

    def open(self) -> None:
        """Follow the claims whose allocation is being written."""
        if self._plans.is_writing:
            self._updated()

    def feasible_depends(self, shape: Shape) -> Depends:
        """Depend on the devices in use, unless a claim cannot be used at all."""
        if any(claim.error for claim in shape.device_claims):
            return Depends.NOTHING
        return Depends.SOURCE | Depends.NODE_SPEC | Depends.PODS

    def feasible(self, shape: Shape, nodes: Nodes) -> Feasibility:
        """Return the nodes on which all claims of the shape are allocated or can be."""
        everywhere = np.ones(len(nodes), np.bool_)
        if text := next((claim.error for claim in shape.device_claims if claim.error), ""):
            return Feasibility(~everywhere, ((text, everywhere),))
        index = self._index.over(nodes)
        if index is not self._index:
            every = self.feasible(shape, self._index.session.nodes)
            rows = [row for name in nodes.names if (row := self._index.row_of(name)) is not None]
            return Feasibility(every.ok[rows], tuple((text, failed[rows]) for text, failed in every.reasons))
        reasons = self._reasons(shape)
        for _, failed in reasons:
            everywhere &= ~failed
        return Feasibility(everywhere, tuple((text, failed) for text, failed in reasons if failed.any()))

    def task_placed(self, task: Task) -> None:
        """Plan the allocation of the task's claims on its node."""
        plans, row = self._updated(), self._index.row_of(task.node)
        unallocated = []
        for key, asked in self._index.session.device_claims.claims(task):
            plans.use(key)
            if not asked.error and plans.allocation_of(key) is None:
                unallocated.append((key, asked))
        if not unallocated or row is None:
            return
        try:
            requests = [self._requested(asked.devices) for _, asked in unallocated]
            found = self._search(requests, row).allocate()
        except AllocationError:
            return  # the task waits on a node whose devices are in use, and is placed again
        for (key, asked), request, chosen in zip(unallocated, requests, found, strict=True):
            if (claim := self._claim(key, asked)) is not None:
                plans.plan(key, allocation_of(claim, request, chosen, task.node, self._index.session.now))

    def steps(self, task: Task) -> Sequence[PreBindStep]:
        """Return the steps that write allocations and reservations of the task's claims."""
        steps: list[PreBindStep] = []
        session, plans = self._index.session, self._updated()
        for key, asked in session.device_claims.claims(task):
            if (claim := self._claim(key, asked)) is None:
                continue
            extended = self._extended(task) if ANNOTATION in claim.metadata.annotations else None
            if extended is not None and asked.is_extended:
                steps.append(claim_steps.make(claim, extended.requests, task))
            if plans.is_stored(key):
                steps += claim_steps.reserve(claim, task, session.now)
            elif (allocation := plans.commit(key, claim, task.uid)) is not None:
                steps += claim_steps.allocate(claim, allocation, task, session.now)
            else:  # the pod is placed again
                steps += claim_steps.refuse(claim)
            if extended is not None:
                steps.append(claim_steps.name_in_status(claim, extended.mappings, task))
        return steps

    def _claim(self, key: str, asked: DeviceClaim) -> ResourceClaim | None:
        """Return a claim as it is stored, or as it will be made for extended resources."""
        if asked.is_extended:
            namespace, _, name = key.partition("/")
            metadata = ObjectMeta(
                name=name, namespace=namespace, annotations={ANNOTATION: "true"}, finalizers=(FINALIZER,)
            )
            return ResourceClaim(metadata=metadata, spec=ResourceClaimSpec(devices=_DECODE.decode(asked.devices)))
        claim = self._index.session.objects(CLAIMS).get(key)
        return claim if isinstance(claim, ResourceClaim) else None

    def _extended(self, task: Task) -> ExtendedRequests:
        """Return the requests for the extended resources of a task."""
        return extended_requests(task.pod.spec, self._index.session.device_claims.backing)

    def _reasons(self, shape: Shape) -> list[tuple[str, Mask]]:
        """Return why nodes fail, as texts with masks over all nodes."""
        plans, index = self._updated(), self._index
        away = np.zeros(index.size, np.bool_)
        full = False
        unallocated: list[DeviceClaim] = []
        for claim in shape.device_claims:
            allocation = plans.allocation_of(claim.key) if claim.key else None
            if allocation is None:
                unallocated.append(claim)
                continue
            if (selector := allocation.node_selector) is not None:
                away |= ~index.matches_any(selector.node_selector_terms)
            full |= plans.is_full(claim.key)
            if isinstance(stored := index.session.objects(CLAIMS).get(claim.key), ResourceClaim):
                away |= has_failed(stored) and self._is_used(stored)
        reasons = [(NOT_HERE, away)]
        if full:
            reasons.append((IN_USE, np.ones(index.size, np.bool_)))
        if unallocated:
            try:
                nodes = self._nodes_for(tuple(claim.devices for claim in unallocated))
            except AllocationError as error:
                reasons.append((str(error), np.ones(index.size, np.bool_)))
            else:
                reasons.extend((text, nodes.codes == code) for code, text in enumerate(nodes.texts) if code)
        return reasons

    def _is_used(self, claim: ResourceClaim) -> bool:
        """Return whether a claim is reserved for other pods than those that wait for it: it is not deallocated then."""
        status_of = self._index.session.device_claims.status_of
        statuses = (status_of(consumer.uid) for consumer in claim.status.reserved_for)
        return any(status not in (None, TaskStatus.PENDING) for status in statuses)

    def _updated(self) -> ClaimPlans:
        """Return the plans of this session; forget what changed slices, nodes and classes alter."""
        index, plans = self._index.update(), self._plans
        if plans.session != index.sessions:
            plans.open(index.session, index.sessions)
            self._inventory.update()
            classes = index.session.version(CLASSES)
            if (self._inventory.generation, classes) != (self._generation, self._classes_seen):
                self._generation, self._classes_seen = self._inventory.generation, classes
                self._nodes.clear()
                self._requests.clear()
        plans.update()
        return plans

    def _nodes_for(self, demand: tuple[bytes, ...]) -> _Nodes:
        """Return the nodes on which claims of this content can be allocated now."""
        usage = self._plans.usage
        if (known := self._nodes.get(demand)) is None:
            if len(self._nodes) >= MAX_CACHED:
                self._nodes.clear()
            claims = tuple(self._requested(devices) for devices in demand)
            known = _Nodes(claims, self._index.size, usage.version)
            rows: Sequence[int] = range(self._index.size)
            self._nodes[demand] = known
        else:
            rows = [row for key in usage.changed_since(known.seen) for row in self._inventory.rows_of(key)]
            known.seen = usage.version
        for row in rows:
            try:
                self._search(known.claims, row).allocate()
            except AllocationError as error:
                known.set(row, str(error))
            else:
                known.codes[row] = 0
        return known

    def _search(self, claims: Sequence[ClaimRequest], row: int) -> Search:
        return Search(claims, self._inventory.at(row), self._plans.usage, self._max_steps)

    def _requested(self, devices: bytes) -> ClaimRequest:
        """Return what a claim of this content asks for; raises AllocationError."""
        if (known := self._requests.get(devices)) is None:
            try:
                known = requested(_DECODE.decode(devices), self._class_of)
            except AllocationError as error:
                known = error
            self._requests[devices] = known
        if isinstance(known, AllocationError):
            raise known
        return known

    def _class_of(self, name: str) -> DeviceClass | None:
        known = self._index.session.objects(CLASSES).get(name)
        return known if isinstance(known, DeviceClass) else None
