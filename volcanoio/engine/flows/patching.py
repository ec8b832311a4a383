"""`flows[].patch.jobSpec` laid over a JobTemplate's spec.

Objects are merged field by field; a list whose entries have a key (tasks by name, containers by name, …) entry by
entry, new entries after those that are there; any other list, and any other value, takes the place of the old one. It
is what `kubectl patch` does to pods (strategic merge), for the lists that are in a Job.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from volcanoio.model.base import Manifest

KEYS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "tasks": (("name",),),
    "volumes": (("name",), ("mountPath",)),  # of a pod, of a Job
    "containers": (("name",),),
    "initContainers": (("name",),),
    "env": (("name",),),
    "ports": (("containerPort", "protocol"), ("containerPort",)),
    "volumeMounts": (("mountPath",),),
    "volumeDevices": (("devicePath",),),
    "imagePullSecrets": (("name",),),
    "hostAliases": (("ip",),),
    "topologySpreadConstraints": (("topologyKey", "whenUnsatisfiable"),),
}
"""Field → what may tell its entries apart; the first that all entries have does. (Kubernetes: `patchMergeKey`.)"""


def patched(spec: Manifest, patch: Manifest) -> Manifest:
    """The spec with the patch laid over it; neither is changed."""
    result = dict(spec)
    for field, value in patch.items():
        if value is None:
            result.pop(field, None)
        else:
            result[field] = _merged(field, result.get(field), value)
    return result


def _merged(field: str, old: Any, new: Any) -> Any:
    if isinstance(old, dict) and isinstance(new, dict):
        return patched(old, new)
    if isinstance(old, list) and isinstance(new, list):
        for keys in KEYS.get(field, ()):
            if all(isinstance(entry, dict) and entry.keys() >= {*keys} for entry in (*old, *new)):
                return _by_key(old, new, keys)
    return new


def _by_key(old: list[Manifest], new: list[Manifest], keys: tuple[str, ...]) -> list[Manifest]:
    entries = {tuple(entry[key] for key in keys): entry for entry in old}
    for entry in new:
        key = tuple(entry[each] for each in keys)
        entries[key] = patched(entries[key], entry) if key in entries else entry
    return list(entries.values())
