"""An update of an object and one of its status each leave the other's part as it is."""

from __future__ import annotations

from typing import Final

from volcanoio.localcluster.apiserver.paths import Target
from volcanoio.model.base import Manifest

_WITH_STATUS: Final = frozenset({"labels", "annotations", "finalizers", "ownerReferences"})
"""Metadata of built-ins that is written along with the status."""

_NOT_WITH_STATUS: Final = {"pods": frozenset({"ownerReferences"}), "deployments.apps": frozenset({"labels"})}


def isolate(target: Target, new: Manifest, old: Manifest) -> None:
    """An update of the object leaves the status as it is; one of the status leaves the rest."""
    resource = target.resource
    if target.subresource == "status":
        status, stated = new.get("status"), new["metadata"]
        absent = "status" not in new if resource.custom is not None else status is None
        kept = dict(old["metadata"])
        if resource.custom is None:
            for key in _WITH_STATUS - _NOT_WITH_STATUS.get(resource.name, frozenset()):
                if key in stated:
                    kept[key] = stated[key]
                else:
                    kept.pop(key, None)
        new.clear()
        new.update(old)
        new["metadata"] = kept
        if resource.name == "pods" and isinstance(status, dict) and not status.get("qosClass"):
            status["qosClass"] = (old.get("status") or {}).get("qosClass", "BestEffort")
        if absent:
            new.pop("status", None)
        else:
            new["status"] = status
    elif "status" in resource.subresources:
        if "status" in old:
            new["status"] = old["status"]
        else:
            new.pop("status", None)
