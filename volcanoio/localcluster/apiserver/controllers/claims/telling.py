"""Events about claims: each reason once for a claim, as the same one is found with every look."""

from __future__ import annotations

from typing import Final, Literal

from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.objects import Ref
from volcanoio.model.base import Manifest

_REMEMBERED: Final = 10_000
_COMPONENT: Final = "persistentvolume-controller"


class Teller:
    """Writes events."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._told: set[tuple[str, str]] = set()

    def __call__(self, claim: Manifest, type_: Literal["Normal", "Warning"], reason: str, message: str) -> None:
        """Tell what becomes of a claim, unless that was told before."""
        core, metadata = self._core, claim["metadata"]
        key = (metadata["uid"], reason)
        if key in self._told:
            return
        if len(self._told) >= _REMEMBERED:
            self._told.clear()
        self._told.add(key)
        now, namespace = core.now(), metadata["namespace"]
        name = f"{metadata['name']}.{core.new_uid()[:16].replace('-', '')}"
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace, "uid": core.new_uid(), "creationTimestamp": now},
            "involvedObject": {
                "kind": "PersistentVolumeClaim",
                "apiVersion": "v1",
                **{key: metadata[key] for key in ("namespace", "name", "uid", "resourceVersion")},
            },
            "reason": reason,
            "message": message,
            "type": type_,
            "source": {"component": _COMPONENT},
            "reportingComponent": _COMPONENT,
            "reportingInstance": "",
            "firstTimestamp": now,
            "lastTimestamp": now,
            "eventTime": None,
            "count": 1,
        }
        core.store.put(Ref("events", namespace, name), event)
