"""Which fields can be selected on, per resource, and how they are read. All have metadata.name, most the namespace."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from volcanoio.model.base import Manifest

Fields: TypeAlias = Mapping[str, str]

METADATA = frozenset({"metadata.name", "metadata.namespace"})

_INVOLVED = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
SELECTABLE: dict[str, tuple[str, ...]] = {
    "pods": (
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
    ),
    "nodes": ("spec.unschedulable",),
    "namespaces": ("status.phase",),
    "secrets": ("type",),
    "services": ("spec.clusterIP", "spec.type"),
    "replicationcontrollers": ("status.replicas",),
    "certificatesigningrequests.certificates.k8s.io": ("spec.signerName",),
    "events": (
        *(f"involvedObject.{key}" for key in _INVOLVED),
        "reason",
        "reportingComponent",
        "source",
        "type",
    ),
    "jobs.batch": ("status.successful",),
}
WITHOUT_NAMESPACE = frozenset({"nodes", "namespaces", "certificatesigningrequests.certificates.k8s.io"})
"""Kinds that cannot be selected by a namespace: of other cluster-scoped ones those without any are."""
_DEFAULTS = {
    "spec.hostNetwork": "false",
    "spec.unschedulable": "false",
    "status.replicas": "0",
    "status.successful": "0",
}
_READ_FROM = {"status.successful": "status.succeeded"}


def text(value: Any) -> str:
    """A field's value as selectors compare it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else str(value)


def reader(paths: tuple[str, ...]) -> Callable[[Manifest], dict[str, str]]:
    """Reads the values of paths of one or two fields out of an object; absent ones are empty."""
    split = [(path, *_READ_FROM.get(path, path).rpartition(".")[::2], _DEFAULTS.get(path, "")) for path in paths]

    def read(obj: Manifest) -> dict[str, str]:
        found = {}
        parent, fields = "", obj
        for path, section, key, default in split:
            if section != parent:
                parent, fields = section, obj.get(section) or {} if section else obj
            value = fields.get(key) if isinstance(fields, dict) else None
            found[path] = value or default if isinstance(value, str) else text(value) or default
        return found

    return read


def read_again(paths: Iterable[str]) -> Callable[[Fields | None, Manifest], dict[str, str] | None]:
    """Reads some paths of an object anew, given what was read of all before (None: nothing was)."""
    read = reader(tuple(paths))
    return lambda known, obj: None if known is None else {**known, **read(obj)}


def _read_event(obj: Manifest) -> dict[str, str]:
    found = _EVENT(obj)
    found["source"] = text((obj.get("source") or {}).get("component")) or found["reportingComponent"]
    return found


_EVENT = reader(SELECTABLE["events"])
READERS: dict[str, Callable[[Manifest], dict[str, str]]] = {
    name: _read_event if name == "events" else reader(paths) for name, paths in SELECTABLE.items()
}
