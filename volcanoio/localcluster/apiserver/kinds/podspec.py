"""Defaults of pod specs, for pods and templates alike (Kubernetes: pkg/apis/core/v1/defaults.go, helper/qos)."""

from __future__ import annotations

from typing import Any, Final

from volcanoio.model.base import Manifest
from volcanoio.model.quantity import QuantityError, canonical

_SPEC: Final = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
}
_CONTAINER: Final = {"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}
_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_PROBE: Final = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
_MODES: Final = {"configMap": 420, "secret": 420, "projected": 420, "downwardAPI": 420}


def default_pod_spec(spec: Manifest, *, of_pod: bool = False) -> None:
    """Fill the absent fields of a pod's spec; in templates requests are not filled from limits, nor service links."""
    if of_pod and spec.get("enableServiceLinks") is None:
        spec["enableServiceLinks"] = True
    for key, value in _SPEC.items():
        if spec.get(key) is None:
            spec[key] = value
    grace = spec["terminationGracePeriodSeconds"]
    if type(grace) is int and grace < 0:
        spec["terminationGracePeriodSeconds"] = 1
    if spec.get("securityContext") is None:
        spec["securityContext"] = {}
    for field in ("containers", "initContainers"):
        containers = spec.get(field)
        if isinstance(containers, list):
            for container in containers:
                if isinstance(container, dict):
                    _default_container(container, fill_requests=of_pod)
                    if spec.get("hostNetwork"):
                        _default_host_ports(container)
    volumes = spec.get("volumes")
    if isinstance(volumes, list):
        for volume in volumes:
            if isinstance(volume, dict):
                _default_volume(volume)


def _default_container(container: Manifest, *, fill_requests: bool) -> None:
    for key, value in _CONTAINER.items():
        if container.get(key) is None:
            container[key] = value
    image = container.get("image")
    if container.get("imagePullPolicy") is None and isinstance(image, str):
        container["imagePullPolicy"] = "Always" if _is_latest(image) else "IfNotPresent"
    resources = container.get("resources")
    if resources is None:
        container["resources"] = {}
    elif isinstance(resources, dict):
        limits, requests = resources.get("limits"), resources.get("requests")
        for amounts in (limits, requests):
            if isinstance(amounts, dict):
                _canonicalise(amounts)
        if fill_requests and isinstance(limits, dict) and limits:
            if requests is None:
                resources["requests"] = dict(limits)
            elif isinstance(requests, dict):
                for name, amount in limits.items():
                    requests.setdefault(name, amount)
    for port in _listed(container.get("ports")):
        if port.get("protocol") is None:
            port["protocol"] = "TCP"
    for name in _PROBES:
        if isinstance(probe := container.get(name), dict):
            _default_probe(probe)
    env = container.get("env")
    if isinstance(env, list):
        for variable in env:
            if isinstance(variable, dict) and "valueFrom" in variable:  # few have it, and pods have many variables
                _default_reference(variable["valueFrom"])


def _default_probe(probe: Manifest) -> None:
    for key, value in _PROBE.items():
        if not probe.get(key):
            probe[key] = value
    request = probe.get("httpGet")
    if isinstance(request, dict) and not request.get("scheme"):
        request["scheme"] = "HTTP"


def _default_reference(holder: Any) -> None:
    """A field of the pod is read in a version of the API."""
    reference = holder.get("fieldRef") if isinstance(holder, dict) else None
    if isinstance(reference, dict) and not reference.get("apiVersion"):
        reference["apiVersion"] = "v1"


def _default_host_ports(container: Manifest) -> None:
    for port in _listed(container.get("ports")):
        if not port.get("hostPort") and port.get("containerPort"):
            port["hostPort"] = port["containerPort"]


def _listed(items: Any) -> list[Manifest]:
    """The objects of a list; nothing where it is none."""
    return [one for one in items if isinstance(one, dict)] if isinstance(items, list) else []


def _canonicalise(amounts: Manifest) -> None:
    """Write quantities as Kubernetes does; those that are none are somebody else's to refuse."""
    for name, amount in amounts.items():
        try:
            amounts[name] = canonical(amount)
        except (QuantityError, TypeError):
            continue


def _is_latest(image: str) -> bool:
    """Whether an image has the tag latest, or neither tag nor digest."""
    if "@" in image:
        return False
    tag = image.rpartition("/")[2].partition(":")[2]
    return tag in {"", "latest"}


def _default_volume(volume: Manifest) -> None:
    if not any(value is not None for key, value in volume.items() if key != "name"):
        volume["emptyDir"] = {}
    for source, mode in _MODES.items():
        found = volume.get(source)
        if isinstance(found, dict):
            found.setdefault("defaultMode", mode)
    if isinstance(path := volume.get("hostPath"), dict):
        path.setdefault("type", "")
    if isinstance(downward := volume.get("downwardAPI"), dict):
        for item in _listed(downward.get("items")):
            _default_reference(item)


def quality_of_service(spec: Manifest) -> str:
    """`BestEffort` without requests and limits, `Guaranteed` where cpu and memory requests equal limits everywhere."""
    any_set, guaranteed = False, True
    for field in ("containers", "initContainers"):
        containers = spec.get(field)
        for container in containers if isinstance(containers, list) else ():
            resources = container.get("resources") if isinstance(container, dict) else None
            resources = resources if isinstance(resources, dict) else {}
            limits, requests = _named(resources.get("limits")), _named(resources.get("requests"))
            any_set = any_set or bool(limits or requests)
            for name in ("cpu", "memory"):
                limit = limits.get(name)
                if limit is None or requests.get(name, limit) != limit:
                    guaranteed = False
    if not any_set:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def _named(amounts: Any) -> dict[str, Any]:
    return amounts if isinstance(amounts, dict) else {}
