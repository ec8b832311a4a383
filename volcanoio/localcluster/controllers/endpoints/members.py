"""What a Service says of one pod behind it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import msgspec

from volcanoio.localcluster.controllers.pods import finished, ready, terminating
from volcanoio.model.base import Manifest
from volcanoio.model.core import Pod, Service

Ports: TypeAlias = tuple[tuple[str, int, str], ...]
"""Name, number and protocol of each port; pods with the same ones share slices and subsets."""


class Member(msgspec.Struct, frozen=True):
    """A pod behind a Service, as its endpoint says it."""

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
    """Whether a Service's selector selects the labels; without one it selects nothing."""
    wanted: Mapping[str, str] = service.spec.get("selector") or {}
    return bool(wanted) and all(labels.get(name) == value for name, value in wanted.items())


def headless(service: Service) -> bool:
    """Whether it has no address of its own."""
    return bool(service.spec.get("clusterIP") == "None")


def member(service: Service, pod: Pod) -> Member | None:
    """What stands behind a Service of a pod: nothing without an address, nor off a node unless it is wanted early."""
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
    """The reference to its pod."""
    return {"kind": "Pod", "namespace": namespace, "name": one.name, "uid": one.uid}


def _ports(service: Service, pod: Pod) -> Ports:
    """The Service's ports with the pod's port numbers; one whose name the pod does not have is left out."""
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
