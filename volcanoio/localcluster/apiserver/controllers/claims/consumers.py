"""Which pods use which claims, asked only for claims that wait for a pod, or for the end of one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.objects import Event, Ref, Stored
from volcanoio.localcluster.apiserver.selection import Selection

_FINISHED: Final = frozenset({"Succeeded", "Failed"})
_MARK: Final = b'"persistentVolumeClaim"'


class Use(NamedTuple):
    """A pod's use of claims of its namespace; `node` is empty until it is bound."""

    claims: tuple[str, ...]
    node: str
    finished: bool


def use_of(stored: Stored) -> Use | None:
    """What a pod uses; None for one without claims."""
    if _MARK not in stored.data:
        return None
    pod = stored.decode()
    spec = pod["spec"]
    names = tuple(
        claim["claimName"]
        for volume in spec.get("volumes") or ()
        if (claim := volume.get("persistentVolumeClaim")) and claim.get("claimName")
    )
    return Use(names, spec.get("nodeName") or "", (pod.get("status") or {}).get("phase") in _FINISHED)


class Consumers:
    """Watches pods while any claim is `awaited`, and tells of those whose pods changed.

    Pods are the many: while nothing is awaited their writes cost nothing here.
    """

    def __init__(self, core: Core, tell: Callable[[Ref], None]) -> None:
        self._core = core
        self._tell = tell
        self._awaited: set[tuple[str, str]] = set()

    def awaits(self, ref: Ref, *, wanted: bool) -> None:
        """Tell of the claim's pods from now on, or no longer."""
        key, before = (ref.namespace, ref.name), bool(self._awaited)
        if wanted:
            self._awaited.add(key)
        else:
            self._awaited.discard(key)
        if self._awaited and not before:
            self._core.store.on("pods", self._changed)
        elif before and not self._awaited:
            self._core.store.off("pods", self._changed)

    def _changed(self, ref: Ref, event: Event) -> None:
        use = use_of(event.new)
        for name in use.claims if use is not None else ():
            if (ref.namespace, name) in self._awaited:
                self._tell(Ref("persistentvolumeclaims", ref.namespace, name))

    def uses(self, ref: Ref) -> list[Use]:
        """The pods that use a claim, and are not over."""
        mark = f'"{ref.name}"'.encode()
        found = []
        for stored in self._core.store.collection("pods").select(Selection(ref.namespace)):
            if _MARK in stored.data and mark in stored.data:
                use = use_of(stored)
                if use is not None and ref.name in use.claims and not use.finished:
                    found.append(use)
        return found
