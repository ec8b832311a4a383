"""EndpointSlices as manifests. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from volcanoio.localcluster.controllers.endpoints.members import Member, Ports, target
from volcanoio.localcluster.controllers.kinds import EndpointSlice
from volcanoio.model.base import Manifest

MOST_IN_SLICE = 100
"""Endpoints in one slice (Kubernetes: --max-endpoints-per-slice)."""


def endpoint(one: Member, namespace: str) -> Manifest:
    """A pod as an entry of a slice."""
    entry: Manifest = {
        "addresses": [one.address],
        "conditions": {"ready": one.ready, "serving": one.serving, "terminating": one.terminating},
        "targetRef": target(one, namespace),
    }
    if one.node:
        entry["nodeName"] = one.node
    if one.hostname:
        entry["hostname"] = one.hostname
    return entry


def slice_ports(ports: Ports) -> list[Manifest]:
    """The ports of a slice."""
    return [{"name": name, "port": number, "protocol": protocol} for name, number, protocol in ports]


def ports_of(one: EndpointSlice) -> Ports:
    """As `slice_ports`, read back."""
    return tuple((port.get("name") or "", port.get("port") or 0, port.get("protocol") or "TCP") for port in one.ports)


def content(members: Iterable[Member], ports: Ports, namespace: str) -> Manifest:
    """What a slice says."""
    return {"endpoints": [endpoint(one, namespace) for one in members], "ports": slice_ports(ports)}
