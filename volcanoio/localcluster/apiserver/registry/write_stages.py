"""Stages of a write that `writer` runs in order.

Isolation of status and spec, defaults and validation of the kind, the name and stored form of a new object, and the
calls of admission: mutating and validating webhooks, and in-process reviewers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from volcanoio.localcluster.apiserver.admission.chain import ON_CREATE
from volcanoio.localcluster.apiserver.admission.reviewers import AdmissionRequest, Operation, default_all, review_all
from volcanoio.localcluster.apiserver.admission.webhooks.attributes import Attributes, of_target, request_options
from volcanoio.localcluster.apiserver.apimachinery import errors
from volcanoio.localcluster.apiserver.apimachinery.objects import Ref, encode
from volcanoio.localcluster.apiserver.apimachinery.paths import Target
from volcanoio.localcluster.apiserver.apimachinery.request import current_user
from volcanoio.localcluster.apiserver.apimachinery.resources import Resource
from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.registry import bodies, metadata
from volcanoio.localcluster.apiserver.registry.kinds.strategy import NAMED_BY_SERVER, PLAIN
from volcanoio.localcluster.apiserver.registry.kinds.table import STRATEGIES
from volcanoio.localcluster.apiserver.registry.preconditions import identity
from volcanoio.localcluster.apiserver.schema.equality import write_whole_floats
from volcanoio.model.base import Manifest
from volcanoio.model.validation.field_errors import FieldError

_WITH_STATUS: Final = frozenset({"labels", "annotations", "finalizers", "ownerReferences"})
"""Metadata of built-ins that is written along with the status."""

_NOT_WITH_STATUS: Final = {
    "pods": frozenset({"ownerReferences"}),
    "deployments.apps": frozenset({"labels"}),
    "resourceclaims.resource.k8s.io": _WITH_STATUS,
}


@dataclass(frozen=True, slots=True)
class Write:
    """One create or update on its way through admission; `old` is None for a create."""

    core: Core
    target: Target
    old: Manifest | None
    dry_run: bool

    @property
    def operation(self) -> Operation:
        """The operation as admission names it."""
        return "CREATE" if self.old is None else "UPDATE"

    def attributes(self, obj: Manifest) -> Attributes:
        """Return the write as webhooks receive it."""
        write = of_target(self.operation, self.target, obj, self.old)
        return replace(write, dry_run=self.dry_run, options=request_options(self.operation))

    def request(self, ref: Ref, obj: Manifest) -> AdmissionRequest:
        """Return the write as in-process admission receives it."""
        return AdmissionRequest(
            operation=self.operation,
            group=self.target.resource.group,
            plural=self.target.resource.plural,
            namespace=ref.namespace,
            name=ref.name,
            object=obj,
            old=self.old,
            dry_run=self.dry_run,
            user=current_user().username,
        )


def keep_other_part(target: Target, new: Manifest, old: Manifest) -> None:
    """Keep the status when the object is updated, and all else when the status is updated."""
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


def complete(core: Core, resource: Resource, obj: Manifest) -> None:
    """Set the defaults of the kind, or of the schema."""
    STRATEGIES.get(resource.name, PLAIN).default(obj, core)
    if resource.custom is not None:
        resource.custom.default(obj)


def set_defaults_of_new(core: Core, target: Target, obj: Manifest) -> None:
    """Set defaults and apply built-in admission to a new object; called again after each change."""
    resource = target.resource
    complete(core, resource, obj)
    for plugin in ON_CREATE.get(resource.name, ()):
        plugin(obj, target.namespace, core)


def rule_errors(write: Write, obj: Manifest, *, content: bool = True, warnings: list[str]) -> list[FieldError]:
    """Return validation errors.

    `content` is whether anything besides metadata and status may have changed.
    """
    resource, old = write.target.resource, write.old
    found: list[FieldError] = []
    described = old is None or obj["metadata"] != old["metadata"]
    if described and resource.name not in metadata.LOOSE:
        found += metadata.errors(resource, obj["metadata"])
    if resource.custom is not None:
        found += resource.custom.validate(obj, old, write.target.subresource == "status", warnings)
    strategy = STRATEGIES.get(resource.name, PLAIN)
    if content:
        if old is None or not strategy.only_updates:
            found += strategy.validate(obj)
        if old is not None:
            found += strategy.validate_update(obj, old)
    if old is not None and write.target.subresource == "status":
        found += strategy.validate_status(obj, old)
    if described and resource.name in metadata.LOOSE and (old is not None or not found):
        found += metadata.errors(resource, obj["metadata"])
    return found


def check_namespace(core: Core, target: Target, obj: Manifest) -> None:
    """Check that body and path agree on the namespace, and that it accepts new objects."""
    resource, namespace = target.resource, target.namespace
    if not resource.namespaced:
        return
    stated = obj["metadata"].get("namespace")
    if not namespace or (stated and stated != namespace):
        raise errors.wrong_namespace()
    found = core.store.get(Ref("namespaces", "", namespace))
    if found is None:
        raise errors.not_found(core.registry.builtin("namespaces"), namespace)
    if found.deleting:
        why = f"unable to create new content in namespace {namespace} because it is being terminated"
        cause = {
            "reason": "NamespaceTerminating",
            "message": f"namespace {namespace} is being terminated",
            "field": "metadata.namespace",
        }
        raise errors.forbidden(resource, str(obj["metadata"].get("name", "")), why, causes=[cause])


def choose_name(core: Core, target: Target, meta: Manifest) -> Ref:
    """Return the key for a new object; a generated name is unused."""
    store, resource = core.store, target.resource
    name, prefix = meta.get("name"), meta.get("generateName")
    if not name and not prefix and resource.name in NAMED_BY_SERVER:
        name = meta["name"] = core.new_uid()
    if not name and isinstance(prefix, str) and prefix:
        while True:
            ref = Ref(resource.name, target.namespace, prefix[:58] + core.new_suffix())
            if store.get(ref) is None:
                meta["name"] = ref.name
                return ref
    return Ref(resource.name, target.namespace, name if isinstance(name, str) else "")


def to_storage(core: Core, resource: Resource, obj: Manifest, body: bytes) -> None:
    """Convert a custom object to its storage version, pruned by that version's schema."""
    if resource.custom is not None:
        stored = core.registry.named(resource.name)
        if stored is not None and stored.custom is not None and stored.version != resource.version:
            obj["apiVersion"] = stored.api_version
            stored.custom.convert_stored(obj)
        write_whole_floats(obj, body)


async def mutated(write: Write, obj: Manifest) -> tuple[Manifest, tuple[str, ...]]:
    """Return the object after the mutating webhooks, with defaults again, and their warnings.

    Raises ApiError.
    """
    core, target, old = write.core, write.target, write.old
    resource = target.resource
    if old is None:
        metadata.drop_server_set(obj["metadata"])
        if resource.namespaced:
            obj["metadata"]["namespace"] = target.namespace
        set_defaults_of_new(core, target, obj)

    def again(one: Manifest) -> None:
        if old is None:
            set_defaults_of_new(core, target, one)
        else:
            complete(core, resource, one)

    result = await core.webhooks.mutate(write.attributes(obj), again)
    if not result.changed or result.object is None:
        return obj, result.warnings
    changed = result.object
    bodies.check_fields(changed, encode(changed), resource, "Ignore")
    if old is not None:
        keep_other_part(target, changed, old)
        metadata.prepare_update(changed, old)
        changed["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
    elif target_name := obj["metadata"].get("name"):
        changed["metadata"]["name"] = target_name
    return changed, result.warnings


async def validated(write: Write, obj: Manifest) -> tuple[str, ...]:
    """Return the warnings of the validating webhooks; raises ApiError."""
    return await write.core.webhooks.validate(write.attributes(obj))


def defaulted(write: Write, ref: Ref, obj: Manifest) -> Manifest:
    """Return the new object with the defaults of in-process admission.

    They come before the rules.
    """
    changed = default_all(write.core.admission, write.request(ref, obj))
    return obj if changed is None else {**changed, "metadata": {**changed["metadata"], **identity(obj["metadata"])}}


async def reviewed(write: Write, ref: Ref, obj: Manifest) -> tuple[Manifest | None, tuple[str, ...]]:
    """Return the object as in-process admission changed it (None: not at all), and its warnings.

    Raises ApiError.
    """
    resource = write.target.resource
    changed, warnings = await review_all(write.core.admission, resource, write.request(ref, obj))
    if changed is not None:
        changed["metadata"] = {**changed["metadata"], **identity(obj["metadata"])}
        complete(write.core, resource, changed)
        rule_warnings: list[str] = []
        if found := rule_errors(write, changed, warnings=rule_warnings):
            raise errors.invalid_object(resource, ref.name, found)
        warnings += tuple(rule_warnings)
    return changed, warnings
