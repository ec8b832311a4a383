"""Fast paths for writes of pods: creation with a known spec, and patches of the status.

Our own components write a pod three times before it runs, in the same few forms. Only the part that changes is decoded,
the rest of its JSON is copied. The result is byte for byte that of `writer`, which handles all other forms. New pods of
one job differ in their metadata only, so that the result for a spec is cached; it depends on the spec, the namespace
and a few objects that rarely change, and a change of one of those clears the cache.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import msgspec

from volcanoio.framework import effects
from volcanoio.kube.transport import ContentType
from volcanoio.localcluster.apiserver.admission.reviewers import has_reviewer
from volcanoio.localcluster.apiserver.apimachinery import errors
from volcanoio.localcluster.apiserver.apimachinery.objects import Event, Ref, Stored, decode
from volcanoio.localcluster.apiserver.apimachinery.paths import Target
from volcanoio.localcluster.apiserver.apimachinery.request import ApiRequest
from volcanoio.localcluster.apiserver.apimachinery.selectors import READERS, SELECTABLE, read_again
from volcanoio.localcluster.apiserver.apply.managers import is_ours
from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.patches import PatchError, strategic
from volcanoio.localcluster.apiserver.registry import metadata as metadata_rules
from volcanoio.localcluster.apiserver.registry.canonical import has_zero
from volcanoio.localcluster.apiserver.registry.preconditions import check_versions, uid_errors
from volcanoio.localcluster.apiserver.registry.write_stages import check_namespace, choose_name
from volcanoio.localcluster.apiserver.registry.writer import Written
from volcanoio.localcluster.apiserver.schema import builtin_types
from volcanoio.model.base import Manifest

Parts: TypeAlias = dict[str, msgspec.Raw]
"""JSON by key, in the order of the object."""

split = msgspec.json.Decoder(Parts).decode
"""Decode the parts of a stored object."""

join = msgspec.json.encode
"""Encode an object from its parts, each encoded or not."""

NULL_VALUE = b":null"
"""A null in stored JSON. A string may contain it too: only its absence is conclusive."""


def at_revision(metadata: msgspec.Raw, known: int, revision: int) -> msgspec.Raw | None:
    """Return stored metadata with another resourceVersion.

    None when the version is not unique in the text.

    Within a string the quotes would be escaped, so that a single match is the field itself.
    """
    data = bytes(metadata)
    before = b'"resourceVersion":"%d"' % known
    if data.count(before) != 1:
        return None
    return msgspec.Raw(data.replace(before, b'"resourceVersion":"%d"' % revision))


PODS: Final = "pods"
_Merge: TypeAlias = Callable[[Manifest, Manifest], Manifest]
_PATCH_PARTS: Final = frozenset({"metadata", "status"})
_PRECONDITIONS: Final = frozenset({"uid", "resourceVersion"})
_fields_of = read_again(path for path in SELECTABLE[PODS] if path.startswith("status."))


def patch_status(core: Core, target: Target, request: ApiRequest, current: Stored) -> bytes | None:
    """Store a patch of a pod's status and return the new object.

    The result is None for patches of another form.

    The form: one of our components patches the status alone, of a pod without managed fields; it may state uid and
    version. Raises ApiError 409 when they differ. A terminating pod may be patched too: its status does not affect
    its
    deletion.
    """
    if request.query or not is_ours(request.headers.get("user-agent")):
        return None
    if core.webhooks.configured or b'"managedFields"' in current.data:
        return None
    merge, patch = _merge_of(request), _patch(request.body)
    parts = split(current.data)
    if merge is None or patch is None or "metadata" not in parts or "status" not in parts:
        return None
    raw = bytes(parts["status"])
    nulls = raw.count(NULL_VALUE)
    meta = patch.get("metadata") or {}
    if nulls != current.data.count(NULL_VALUE) or uid_errors(current, meta.get("uid")):
        return None
    check_versions(target, current, meta, patching=True)
    before: Manifest = decode(raw)
    status: Manifest = decode(raw)
    if nulls:
        builtin_types.drop_nulls(PODS, "status", status)
    try:
        status = merge(status, patch["status"])
    except PatchError:
        return None
    if b"null" in request.body:
        builtin_types.drop_nulls(PODS, "status", status)
    if not status.get("qosClass"):
        status["qosClass"] = before.get("qosClass", "BestEffort")
    if status == before:
        return current.data
    return _store(core, target, current, parts, status)


def _merge_of(request: ApiRequest) -> _Merge | None:
    """Return the merge function of the patch's type; None for other types."""
    type_ = request.headers.get("content-type")
    if type_ == ContentType.STRATEGIC_MERGE_PATCH:
        return strategic.apply_plain_status if strategic.is_plain(request.body) else strategic.apply_status
    return effects.apply_merge_patch if type_ == ContentType.MERGE_PATCH else None


def _patch(body: bytes) -> Manifest | None:
    """Return the patch, if it is of the status alone and all its types are right."""
    try:
        patch = decode(body)
    except errors.MALFORMED:
        return None
    if not isinstance(patch, dict) or not patch.keys() <= _PATCH_PARTS or not isinstance(patch.get("status"), dict):
        return None
    stated = patch.get("metadata", {})
    if not isinstance(stated, dict) or not stated.keys() <= _PRECONDITIONS or not all(stated.values()):
        return None
    return patch if builtin_types.fits(PODS, body) else None


def _store(core: Core, target: Target, current: Stored, parts: dict[str, Any], status: Manifest) -> bytes | None:
    metadata = parts["metadata"]

    def made(revision: int) -> Stored:
        following: Any = at_revision(metadata, current.revision, revision)
        if following is None:
            following = {**decode(metadata), "resourceVersion": str(revision)}
        data = join({**parts, "metadata": following, "status": status})
        if len(data) > errors.MAX_OBJECT_BYTES:
            raise errors.too_large_to_store()
        return current.next_version(revision, data, _fields_of(current.fields, {"status": status}))

    core.check_writable()
    return core.store.put_with(target.ref, made).data


Value = TypeVar("Value")

ASKED: Final = ("serviceaccounts", "priorityclasses.scheduling.k8s.io", "runtimeclasses.node.k8s.io")
"""Resources that plugins read when a pod is created (`chain.ON_CREATE`), besides LimitRanges."""

MOST: Final = 1024
"""Maximal number of cached specs, and of specs that came once: the oldest is dropped."""
LARGEST: Final = 32 * 1024
"""Maximal bytes of a cached spec; larger ones are rare."""

_CREATION_PARTS: Final = frozenset({"apiVersion", "kind", "metadata", "spec"})
_STATED: Final = ("managedFields", "resourceVersion")


class _Outcome(NamedTuple):
    """Cached result for a spec.

    JSON of the stored spec and the first status, and their selector fields.
    """

    spec: msgspec.Raw
    status: msgspec.Raw
    fields: dict[str, str]


class PodCreations:
    """Creator of pods with known specs; it caches specs of pods that the writer created."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._known: dict[tuple[str, bytes], _Outcome] = {}
        self._once: dict[tuple[str, bytes], None] = {}
        for resource in ASKED:
            core.store.on(resource, self._forget)

    def create(self, target: Target, request: ApiRequest) -> bytes | None:
        """Store a pod and return its JSON.

        The result is None for a pod that the writer must create. Raises ApiError.
        """
        parts = self._parts(target, request)
        outcome = None if parts is None else self._known.get((target.namespace, bytes(parts["spec"])))
        if parts is None or outcome is None:
            return None
        meta = self._usual_metadata(parts)
        return None if meta is None else self._store(target, meta, parts, outcome)

    def cache_spec(self, target: Target, request: ApiRequest, written: Written) -> None:
        """Cache the result for a spec that occurs for the second time.

        Most single pods have a unique spec.
        """
        parts = None if written.warnings else self._parts(target, request)
        if parts is None:
            return
        key = (target.namespace, bytes(parts["spec"]))
        if key not in self._once:
            _add(self._once, key, None)
            return
        stored = split(written.data)
        usual = self._usual_metadata(parts) is not None  # otherwise the order of the spec's fields may differ
        if usual and b'"conditions"' not in bytes(stored["status"]):  # a gated pod's condition contains a time
            fields = READERS[PODS](decode(written.data))
            spec, status = msgspec.Raw(bytes(stored["spec"])), msgspec.Raw(bytes(stored["status"]))
            _add(self._known, key, _Outcome(spec, status, fields))

    def _parts(self, target: Target, request: ApiRequest) -> Parts | None:
        """Return the parts of the body, where the result for the spec depends on the spec only."""
        core, headers = self._core, request.headers
        if request.query or not is_ours(headers.get("user-agent")):
            return None
        if headers.get("content-type", "application/json") != "application/json":
            return None
        if core.webhooks.configured or target.namespace in core.quotas.namespaces:
            return None
        if core.limits.apply_to(target.namespace):
            return None
        try:
            parts = split(request.body)
        except errors.MALFORMED:
            return None
        if not parts.keys() <= _CREATION_PARTS or not {"metadata", "spec"} <= parts.keys():
            return None
        if len(bytes(parts["spec"])) > LARGEST:
            return None
        named = bytes(parts.get("apiVersion", b"")) == b'"v1"' and bytes(parts.get("kind", b"")) == b'"Pod"'
        return parts if named else None

    def _usual_metadata(self, parts: Parts) -> Manifest | None:
        """Return the pod's metadata; None where it is unusual, or where a reviewer reviews the pod."""
        meta = _metadata(parts["metadata"])
        if meta is None or has_reviewer(self._core.admission, "CREATE", PODS, meta.get("annotations") or {}):
            return None
        return meta

    def _store(self, target: Target, meta: Manifest, parts: Parts, outcome: _Outcome) -> bytes:
        core, resource = self._core, target.resource
        check_namespace(core, target, {"metadata": meta})
        ref = choose_name(core, target, meta)
        metadata_rules.prepare_create(core, resource, target.namespace, meta)
        if found := metadata_rules.errors(resource, meta):
            raise errors.invalid_object(resource, ref.name, found)
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
        return core.store.put_with(ref, made).data

    def _forget(self, ref: Ref, event: Event) -> None:
        del ref, event
        self._known.clear()


def _metadata(raw: msgspec.Raw) -> Manifest | None:
    """Return the metadata, if its types are right, it is canonical, and has common fields only."""
    data = bytes(raw)
    if b"null" in data or not builtin_types.fits(PODS, b'{"metadata":%s}' % data):
        return None
    meta: Manifest = decode(data)
    return None if has_zero(meta) or any(key in meta for key in _STATED) else meta


def _add(table: dict[tuple[str, bytes], Value], key: tuple[str, bytes], value: Value) -> None:
    table[key] = value
    if len(table) > MOST:
        del table[next(iter(table))]
