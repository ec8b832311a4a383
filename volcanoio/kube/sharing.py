"""Parts that many objects have alike are kept once: of 100,000 pods of a few jobs, two thirds of the memory.

Objects are never written to after they are decoded; this is where it is made use of.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, TypeVar

import msgspec

from volcanoio.model.base import ApiObject
from volcanoio.model.core import ContainerStatus, Pod, PodStatus

MOST = 8192
"""Different parts, or words, known at once; then all are forgotten, and later ones are shared among themselves."""
LONGEST = 256
"""Characters of a text that others may have, too."""
Part = TypeVar("Part")
_put = msgspec.structs.force_setattr


class Shared:
    """The parts of pods met so far."""

    def __init__(self) -> None:
        self._known: dict[Hashable, Any] = {}
        self._words: dict[str, str] = {}
        self._encode: Callable[[Any], bytes] = msgspec.msgpack.Encoder().encode

    def of(self, obj: ApiObject) -> ApiObject:
        """The same object, of parts that others have alike."""
        if isinstance(obj, Pod):
            if len(self._words) >= MOST:
                self._words.clear()
            meta, spec = obj.metadata, obj.spec
            _put(meta, "namespace", self._word(meta.namespace))
            _put(meta, "annotations", self._texts(meta.annotations))
            _put(meta, "labels", self._texts(meta.labels))
            if meta.owner_references:
                _put(meta, "owner_references", self._built(meta.owner_references))
            _put(spec, "containers", self._built(spec.containers))
            _put(spec, "node_selector", self._texts(spec.node_selector))
            for field, part in (
                ("init_containers", spec.init_containers),
                ("tolerations", spec.tolerations),
                ("volumes", spec.volumes),
            ):
                if part:
                    _put(spec, field, self._built(part))
            _put(spec, "node_name", self._word(spec.node_name))
            _put(spec, "scheduler_name", self._word(spec.scheduler_name))
            _put(spec, "restart_policy", self._word(spec.restart_policy))
            _put(spec, "subdomain", self._word(spec.subdomain))
            if meta.creation_timestamp:
                _put(meta, "creation_timestamp", self._word(meta.creation_timestamp))
            if obj.status.phase in ("", "Pending"):
                _put(obj, "status", self._built(obj.status))
            else:
                self._status(obj.status)
        return obj

    def _status(self, status: PodStatus) -> None:
        """Of a pod that was started little is its own: its address, and the ids of its containers."""
        _put(status, "phase", self._word(status.phase))
        if status.start_time:
            _put(status, "start_time", self._word(status.start_time))
        if status.conditions:
            _put(status, "conditions", self._built(status.conditions))  # those of a gang, in the same second
        for container in (*status.init_container_statuses, *status.container_statuses):
            self._container(container)

    def _container(self, container: ContainerStatus) -> None:
        _put(container, "name", self._word(container.name))
        _put(container, "state", self._built(container.state))
        _put(container, "last_state", self._built(container.last_state))

    def _built(self, part: Part) -> Part:
        return self._one(self._encode(part), part)

    def _texts(self, texts: Mapping[str, str]) -> Mapping[str, str]:
        """The same texts: those that others have, or made of words that others have."""
        key = tuple(texts.items())
        known: Mapping[str, str] | None = self._known.get(key)
        if known is not None:
            return known
        word = self._words.setdefault
        made = {word(name, name): word(text, text) if len(text) <= LONGEST else text for name, text in key}
        return self._one(tuple(made.items()), made)

    def _word(self, text: str) -> str:
        return self._words.setdefault(text, text) if len(text) <= LONGEST else text

    def _one(self, key: Hashable, part: Part) -> Part:
        known: Part | None = self._known.get(key)
        if known is None:
            if len(self._known) >= MOST:
                self._known.clear()
            known = self._known[key] = part
        return known
