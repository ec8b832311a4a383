"""New pods whose spec came before: what the server made of it then is what it makes of it now.

Pods of a job, a set or a workload differ in their metadata alone. What a spec becomes (defaults, canonical form, rules,
what admission gives it) depends on it, its namespace and a few objects that rarely change; when one does, all is
forgotten.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeVar

import msgspec

from volcanoio.localcluster.apiserver import builtin_types, errors
from volcanoio.localcluster.apiserver import metadata as metadata_rules
from volcanoio.localcluster.apiserver.admission import judges
from volcanoio.localcluster.apiserver.api import ApiRequest
from volcanoio.localcluster.apiserver.apply.managers import is_ours
from volcanoio.localcluster.apiserver.canonical import has_zero
from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.fieldpaths import READERS
from volcanoio.localcluster.apiserver.objects import Event, Ref, Stored, decode
from volcanoio.localcluster.apiserver.paths import Target
from volcanoio.localcluster.apiserver.splicing.parts import Parts, join, split
from volcanoio.localcluster.apiserver.splicing.podstatus import PODS
from volcanoio.localcluster.apiserver.writer import Written
from volcanoio.localcluster.apiserver.writing.placing import check_namespace, choose_name
from volcanoio.model.base import Manifest

Value = TypeVar("Value")

ASKED: Final = ("serviceaccounts", "priorityclasses.scheduling.k8s.io", "runtimeclasses.node.k8s.io")
"""What plugins look at when a pod is created (`plugins.chain.ON_CREATE`), besides the pod and LimitRanges."""

MOST: Final = 1024
"""Specs that are remembered, and those that are known to have come once: the oldest makes room."""
LARGEST: Final = 32 * 1024
"""Bytes of a spec that is remembered; larger ones are rare, and go the general way."""

_PARTS: Final = frozenset({"apiVersion", "kind", "metadata", "spec"})
_STATED: Final = ("managedFields", "resourceVersion")


class _Outcome(NamedTuple):
    """What a spec became: JSON of the stored spec and of the first status, and what selectors read of them."""

    spec: msgspec.Raw
    status: msgspec.Raw
    fields: dict[str, str]


class PodCreations:
    """Creates pods of known specs, and learns specs from pods that were created in the general way."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._known: dict[tuple[str, bytes], _Outcome] = {}
        self._once: dict[tuple[str, bytes], None] = {}
        for resource in ASKED:
            core.store.on(resource, self._forget)

    def create(self, target: Target, request: ApiRequest) -> bytes | None:
        """Store a pod and give it as it is; None for one that has to go the general way. Raises ApiError."""
        parts = self._parts(target, request)
        outcome = None if parts is None else self._known.get((target.namespace, bytes(parts["spec"])))
        if parts is None or outcome is None:
            return None
        meta = _metadata(parts["metadata"])
        return None if meta is None else self._store(target, meta, parts, outcome)

    def learn(self, target: Target, request: ApiRequest, written: Written) -> None:
        """Note what became of a spec, once it has come twice: a spec of its own kind would not come again."""
        parts = None if written.warnings else self._parts(target, request)
        if parts is None:
            return
        key = (target.namespace, bytes(parts["spec"]))
        if key not in self._once:
            _add(self._once, key, None)
            return
        stored = split(written.data)
        usual = _metadata(parts["metadata"]) is not None  # else the order of a spec's fields may be another
        if usual and b'"conditions"' not in bytes(stored["status"]):  # a gated pod's has a time
            fields = READERS[PODS](decode(written.data))
            spec, status = msgspec.Raw(bytes(stored["spec"])), msgspec.Raw(bytes(stored["status"]))
            _add(self._known, key, _Outcome(spec, status, fields))

    def _parts(self, target: Target, request: ApiRequest) -> Parts | None:
        """The body's parts, where nothing but the spec decides what becomes of the spec."""
        core, headers = self._core, request.headers
        if request.query or not is_ours(headers.get("user-agent")):
            return None
        if headers.get("content-type", "application/json") != "application/json":
            return None
        if core.webhooks.configured or target.namespace in core.quotas.namespaces:
            return None
        if core.limits.apply_to(target.namespace) or judges(core.admission, PODS):
            return None
        try:
            parts = split(request.body)
        except errors.MALFORMED:
            return None
        if not parts.keys() <= _PARTS or not {"metadata", "spec"} <= parts.keys():
            return None
        if len(bytes(parts["spec"])) > LARGEST:
            return None
        named = bytes(parts.get("apiVersion", b"")) == b'"v1"' and bytes(parts.get("kind", b"")) == b'"Pod"'
        return parts if named else None

    def _store(self, target: Target, meta: Manifest, parts: Parts, outcome: _Outcome) -> bytes:
        core, resource = self._core, target.resource
        check_namespace(core, target, {"metadata": meta})
        ref = choose_name(core, target, meta)
        metadata_rules.prepare_create(core, resource, target.namespace, meta)
        if found := metadata_rules.errors(resource, meta):
            raise errors.invalid(resource, ref.name, found)
        if (known := core.store.get(ref)) is not None:
            raise errors.already_exists(resource, ref.name, deleting=known.deleting)

        def made(revision: int) -> Stored:
            meta["resourceVersion"] = str(revision)
            data = join({**parts, "metadata": meta, "spec": outcome.spec, "status": outcome.status})
            if len(data) > errors.MAX_OBJECT_BYTES:
                raise errors.too_large_to_store()
            new = Stored(ref.namespace, ref.name, revision, {"metadata": meta}, data)
            new.fields = outcome.fields
            return new

        core.check_writable()
        return core.store.put_made(ref, made).data

    def _forget(self, ref: Ref, event: Event) -> None:
        del ref, event
        self._known.clear()


def _metadata(raw: msgspec.Raw) -> Manifest | None:
    """The metadata, if its types are right, it is in canonical form, and it says nothing that only few say."""
    data = bytes(raw)
    if b"null" in data or not builtin_types.fits(PODS, b'{"metadata":%s}' % data):
        return None
    meta: Manifest = decode(data)
    return None if has_zero(meta) or any(key in meta for key in _STATED) else meta


def _add(table: dict[tuple[str, bytes], Value], key: tuple[str, bytes], value: Value) -> None:
    table[key] = value
    if len(table) > MOST:
        del table[next(iter(table))]
