"""The endpoint of one pod behind a Service, and EndpointSlices as manifests. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

import msgspec

from volcanoio.localcluster.controllers.objects import EndpointSlice
from volcanoio.localcluster.controllers.pods import finished, ready, terminating
from volcanoio.model.base import Manifest
from volcanoio.model.core import Pod, Service

Ports: TypeAlias = tuple[tuple[str, int, str], ...]
"""Name, number and protocol of each port; pods with the same ones share slices and subsets."""


class Member(msgspec.Struct, frozen=True):
    """A pod behind a Service, as its endpoint describes it."""

    name: str
    uid: str
    address: str
    node: str
    hostname: str
    ports: Ports
    ready: bool
    serving: bool
    terminating: bool


def selects(service: Service, labels: Mapping[str, str]) -> bool:
    """Return whether a Service's selector selects the labels; without one it selects nothing."""
    wanted: Mapping[str, str] = service.spec.get("selector") or {}
    return bool(wanted) and all(labels.get(name) == value for name, value in wanted.items())


def headless(service: Service) -> bool:
    """Return whether a Service is headless."""
    return bool(service.spec.get("clusterIP") == "None")


def member(service: Service, pod: Pod) -> Member | None:
    """Return the endpoint of a pod.

    The result is None without address, or unready unless the Service publishes these.
    """
    early = bool(service.spec.get("publishNotReadyAddresses"))
    if not selects(service, pod.metadata.labels) or not pod.status.pod_ip or finished(pod):
        return None
    if not early and not pod.spec.node_name:
        return None
    serving, going = ready(pod), terminating(pod)
    return Member(
        name=pod.metadata.name,
        uid=pod.metadata.uid,
        address=pod.status.pod_ip,
        node=pod.spec.node_name or "",
        hostname=(pod.spec.hostname or "") if pod.spec.subdomain == service.metadata.name else "",
        ports=_ports(service, pod),
        ready=early or (serving and not going),
        serving=serving,
        terminating=going,
    )


def target(one: Member, namespace: str) -> Manifest:
    """Return the reference to the endpoint's pod."""
    return {"kind": "Pod", "namespace": namespace, "name": one.name, "uid": one.uid}


def _ports(service: Service, pod: Pod) -> Ports:
    """Return the Service's ports with the pod's port numbers.

    One whose name the pod does not have is left out.
    """
    found: list[tuple[str, int, str]] = []
    for port in service.spec.get("ports") or ():
        protocol = port.get("protocol", "TCP")
        target_port = port.get("targetPort", port.get("port"))
        if isinstance(target_port, str):
            named = (
                one.container_port
                for container in pod.spec.containers
                for one in container.ports
                if one.name == target_port and one.protocol == protocol
            )
            target_port = next(named, None)
        if target_port is not None:
            found.append((str(port.get("name", "")), int(target_port), protocol))
    return tuple(found)


MAX_IN_SLICE = 100
"""Endpoints in one slice (Kubernetes: --max-endpoints-per-slice)."""


def endpoint(one: Member, namespace: str) -> Manifest:
    """Return a pod as an entry of a slice."""
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
    """Return the ports of a slice."""
    return [{"name": name, "port": number, "protocol": protocol} for name, number, protocol in ports]


def ports_of(one: EndpointSlice) -> Ports:
    """Return the ports of a slice, read back."""
    return tuple((port.get("name") or "", port.get("port") or 0, port.get("protocol") or "TCP") for port in one.ports)


def content(members: Iterable[Member], ports: Ports, namespace: str) -> Manifest:
    """Return the content of a slice."""
    return {"endpoints": [endpoint(one, namespace) for one in members], "ports": slice_ports(ports)}
