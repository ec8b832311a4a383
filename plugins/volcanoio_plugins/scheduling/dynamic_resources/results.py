"""The allocation that is stored for chosen devices: results, parameters for drivers, and the nodes that can use it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from uuid import UUID, uuid5

from volcanoio.model.core import NodeSelector, NodeSelectorTerm, Requirement
from volcanoio.model.dynamic_resources.objects import Allocation, DeviceResult, DeviceResults, ResourceClaim
from volcanoio.model.selectors import NAME_FIELD
from volcanoio_plugins.scheduling.dynamic_resources.allocator import Chosen, ClaimRequest

_SHARES = UUID("5f0a4b8e-6c0e-4a51-9a35-1d4a2f0f6a77")
"""Namespace of the ids of shares: an id follows from the claim and the device, so that a replay decides the same."""


def allocation_of(claim: ResourceClaim, request: ClaimRequest, chosen: Sequence[Chosen], node: str) -> Allocation:
    """Return the allocation of a claim for the devices chosen on a node."""
    results = tuple(_result(claim, at, one) for at, one in enumerate(chosen))
    config = (*_class_config(request, chosen), *_claim_config(claim, chosen))
    return Allocation(devices=DeviceResults(results=results, config=config), node_selector=_node_selector(chosen, node))


def _result(claim: ResourceClaim, at: int, chosen: Chosen) -> DeviceResult:
    driver, pool, device = chosen.device.id
    request = chosen.alternative.request
    share = uuid5(_SHARES, f"{claim.metadata.uid}/{at}/{driver}/{pool}/{device}")
    return DeviceResult(
        request=chosen.alternative.name,
        driver=driver,
        pool=pool,
        device=device,
        admin_access=request.admin_access or None,
        tolerations=request.tolerations,
        share_id=None if chosen.consumed is None else str(share),
        consumed_capacity=dict(chosen.consumed or {}),
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
