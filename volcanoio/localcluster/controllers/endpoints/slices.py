"""What a Service's pods are, as addresses in slices and in one Endpoints object. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from volcanoio.localcluster.controllers.kinds import EndpointSlice
from volcanoio.localcluster.controllers.pods import finished, ready, terminating
from volcanoio.model.base import Manifest
from volcanoio.model.core import Pod, Service

MOST_IN_SLICE, MOST_IN_ENDPOINTS = 100, 1000


def backing(service: Service, pods: Iterable[Pod]) -> list[Pod]:
    """The pods behind a Service, by name: those with an address, on a node unless they are wanted early."""
    early = bool(service.spec.get("publishNotReadyAddresses"))
    found = (pod for pod in pods if pod.status.pod_ip and not finished(pod) and (early or pod.spec.node_name))
    return sorted(found, key=lambda pod: pod.metadata.name)


def selects(service: Service, labels: Mapping[str, str]) -> bool:
    """Whether a Service's selector selects the labels; without one it selects nothing."""
    wanted: Mapping[str, str] = service.spec.get("selector") or {}
    return bool(wanted) and all(labels.get(name) == value for name, value in wanted.items())


def wanted_slices(service: Service, pods: Sequence[Pod]) -> dict[tuple[tuple[str, Any], ...], list[Manifest]]:
    """The endpoints, by the ports they have."""
    groups: dict[tuple[tuple[str, Any], ...], list[Manifest]] = {}
    early = bool(service.spec.get("publishNotReadyAddresses"))
    for pod in pods:
        ports = tuple((str(port.get("name", "")), number) for port, number in _ports(service, pod))
        serving, going = ready(pod), terminating(pod)
        endpoint: Manifest = {
            "addresses": [pod.status.pod_ip],
            "conditions": {"ready": early or (serving and not going), "serving": serving, "terminating": going},
            "targetRef": _target(pod),
        }
        if pod.spec.node_name:
            endpoint["nodeName"] = pod.spec.node_name
        if pod.spec.hostname and pod.spec.subdomain == service.metadata.name:
            endpoint["hostname"] = pod.spec.hostname
        groups.setdefault(ports, []).append(endpoint)
    return groups


def arranged(
    known: Sequence[EndpointSlice], endpoints: Sequence[Manifest]
) -> list[tuple[EndpointSlice | None, list[Manifest]]]:
    """Endpoints in slices: each stays where it is, new ones fill slices with room, the rest gets new slices."""
    left = {one["targetRef"]["uid"]: one for one in endpoints}
    filled: list[tuple[EndpointSlice | None, list[Manifest]]] = []
    for one in known:
        uids = [(entry.get("targetRef") or {}).get("uid") for entry in one.endpoints]
        filled.append((one, [left.pop(uid) for uid in uids if uid in left]))
    waiting = list(left.values())
    for _, entries in filled:
        room = MOST_IN_SLICE - len(entries)
        entries += waiting[:room]
        waiting = waiting[room:]
    more = range(0, len(waiting), MOST_IN_SLICE)
    filled.extend((None, waiting[start : start + MOST_IN_SLICE]) for start in more)
    return filled


def slice_ports(service: Service, group: tuple[tuple[str, Any], ...]) -> list[Manifest]:
    """The ports of a slice."""
    protocols = {str(port.get("name", "")): port.get("protocol", "TCP") for port in service.spec.get("ports") or ()}
    return [{"name": name, "port": number, "protocol": protocols.get(name, "TCP")} for name, number in group]


def subsets(service: Service, pods: Sequence[Pod]) -> tuple[list[Manifest], bool]:
    """The subsets of the Endpoints object, and whether some were left out."""
    early = bool(service.spec.get("publishNotReadyAddresses"))
    groups: dict[tuple[tuple[str, Any], ...], tuple[list[Manifest], list[Manifest]]] = {}
    number = 0
    for pod in pods:
        if terminating(pod):
            continue
        number += 1
        if number > MOST_IN_ENDPOINTS:
            continue
        ports = tuple((str(port.get("name", "")), at) for port, at in _ports(service, pod))
        if not ports and service.spec.get("clusterIP") != "None":
            continue
        address: Manifest = {"ip": pod.status.pod_ip, "targetRef": _target(pod)}
        if pod.spec.node_name:
            address["nodeName"] = pod.spec.node_name
        if pod.spec.hostname and pod.spec.subdomain == service.metadata.name:
            address["hostname"] = pod.spec.hostname
        good, bad = groups.setdefault(ports, ([], []))
        (good if early or ready(pod) else bad).append(address)
    result: list[Manifest] = []
    for ports, (good, bad) in sorted(groups.items(), key=lambda item: str(item[0])):
        subset: Manifest = {}
        if good:
            subset["addresses"] = good
        if bad:
            subset["notReadyAddresses"] = bad
        if ports:
            subset["ports"] = [
                {key: value for key, value in one.items() if value != ""} for one in slice_ports(service, ports)
            ]
        result.append(subset)
    return result, number > MOST_IN_ENDPOINTS


def _ports(service: Service, pod: Pod) -> list[tuple[Manifest, int]]:
    """The Service's ports with the pod's port numbers; one whose name the pod does not have is left out."""
    found: list[tuple[Manifest, int]] = []
    for port in service.spec.get("ports") or ():
        target = port.get("targetPort", port.get("port"))
        if isinstance(target, str):
            named = (
                one.container_port
                for container in pod.spec.containers
                for one in container.ports
                if one.name == target and one.protocol == port.get("protocol", "TCP")
            )
            target = next(named, None)
        if target is not None:
            found.append((port, int(target)))
    return found


def _target(pod: Pod) -> Manifest:
    meta = pod.metadata
    return {"kind": "Pod", "namespace": meta.namespace, "name": meta.name, "uid": meta.uid}
