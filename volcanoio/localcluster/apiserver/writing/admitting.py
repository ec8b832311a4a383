"""Those who are asked about a write: webhooks, and our own admission."""

from __future__ import annotations

from dataclasses import replace

from volcanoio.localcluster.apiserver import bodies, errors, metadata
from volcanoio.localcluster.apiserver.admission import AdmissionRequest, Operation, review_all
from volcanoio.localcluster.apiserver.caller import current_user
from volcanoio.localcluster.apiserver.comparison import identity
from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.objects import Ref, encode
from volcanoio.localcluster.apiserver.paths import Target
from volcanoio.localcluster.apiserver.resources import Resource
from volcanoio.localcluster.apiserver.webhooks.attributes import Attributes, of_target
from volcanoio.localcluster.apiserver.webhooks.options import request_options
from volcanoio.localcluster.apiserver.writing.completion import complete, complete_new, rule_errors
from volcanoio.localcluster.apiserver.writing.isolation import isolate
from volcanoio.model.base import Manifest


def _attributes(
    operation: Operation, target: Target, obj: Manifest, old: Manifest | None, *, dry_run: bool
) -> Attributes:
    """The write as webhooks see it."""
    write = of_target(operation, target, obj, old)
    return replace(write, dry_run=dry_run, options=request_options(operation))


async def mutated(
    core: Core, operation: Operation, target: Target, obj: Manifest, old: Manifest | None, *, dry_run: bool
) -> tuple[Manifest, tuple[str, ...]]:
    """The object after the mutating webhooks, complete again, and what they told; raises ApiError."""
    resource = target.resource
    if old is None:
        metadata.drop_server_set(obj["metadata"])
        if resource.namespaced:
            obj["metadata"]["namespace"] = target.namespace
        complete_new(core, target, obj)

    def again(one: Manifest) -> None:
        if old is None:
            complete_new(core, target, one)
        else:
            complete(core, resource, one)

    attributes = _attributes(operation, target, obj, old, dry_run=dry_run)
    reviewed = await core.webhooks.mutate(attributes, again)
    if not reviewed.changed or reviewed.object is None:
        return obj, reviewed.warnings
    changed = reviewed.object
    bodies.check_fields(changed, encode(changed), resource, "Ignore")
    if old is not None:
        isolate(target, changed, old)
        metadata.prepare_update(changed, old)
        changed["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
    elif target_name := obj["metadata"].get("name"):
        changed["metadata"]["name"] = target_name
    return changed, reviewed.warnings


async def validated(
    core: Core, operation: Operation, target: Target, obj: Manifest, old: Manifest | None, *, dry_run: bool
) -> tuple[str, ...]:
    """What the validating webhooks told; raises ApiError."""
    return await core.webhooks.validate(_attributes(operation, target, obj, old, dry_run=dry_run))


async def reviewed(
    core: Core,
    operation: Operation,
    ref: Ref,
    resource: Resource,
    obj: Manifest,
    old: Manifest | None,
    *,
    dry_run: bool,
) -> tuple[Manifest | None, tuple[str, ...]]:
    """What our own admission made of the object (None: nothing), and what it told; raises ApiError."""
    request = AdmissionRequest(
        operation=operation,
        group=resource.group,
        plural=resource.plural,
        namespace=ref.namespace,
        name=ref.name,
        object=obj,
        old=old,
        dry_run=dry_run,
        user=current_user().username,
    )
    changed, warnings = await review_all(core.admission, resource, request)
    if changed is not None:
        changed["metadata"] = {**changed["metadata"], **identity(obj["metadata"])}
        complete(core, resource, changed)
        said: list[str] = []
        if found := rule_errors(resource, changed, old, warnings=said):
            raise errors.invalid(resource, ref.name, found)
        warnings += tuple(said)
    return changed, warnings
