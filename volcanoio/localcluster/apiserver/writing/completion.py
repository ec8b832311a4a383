"""What makes an object complete, and the rules it must keep, whoever changed it last."""

from __future__ import annotations

from volcanoio.engine.admission.fielderrors import FieldError
from volcanoio.localcluster.apiserver import metadata
from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.kinds.strategy import PLAIN
from volcanoio.localcluster.apiserver.kinds.table import STRATEGIES
from volcanoio.localcluster.apiserver.paths import Target
from volcanoio.localcluster.apiserver.plugins.chain import ON_CREATE
from volcanoio.localcluster.apiserver.resources import Resource
from volcanoio.model.base import Manifest


def complete(core: Core, resource: Resource, obj: Manifest) -> None:
    """Defaults of the kind, or of the schema."""
    STRATEGIES.get(resource.name, PLAIN).default(obj, core)
    if resource.custom is not None:
        resource.custom.default(obj)


def complete_new(core: Core, target: Target, obj: Manifest) -> None:
    """Defaults, and what admission gives a new object; may be called again after somebody changed it."""
    resource = target.resource
    complete(core, resource, obj)
    for plugin in ON_CREATE.get(resource.name, ()):
        plugin(obj, target.namespace, core)


def rule_errors(
    resource: Resource,
    obj: Manifest,
    old: Manifest | None = None,
    *,
    content: bool = True,
    subresource: str = "",
    warnings: list[str],
) -> list[FieldError]:
    """The broken rules; `content` says whether anything besides metadata and status may have changed."""
    found: list[FieldError] = []
    described = old is None or obj["metadata"] != old["metadata"]
    if described and resource.name not in metadata.LOOSE:
        found += metadata.errors(resource, obj["metadata"])
    if resource.custom is not None:
        found += resource.custom.validate(obj, old, subresource == "status", warnings)
    strategy = STRATEGIES.get(resource.name, PLAIN)
    if content:
        if old is None or not strategy.only_updates:
            found += strategy.validate(obj)
        if old is not None:
            found += strategy.validate_update(obj, old)
    if described and resource.name in metadata.LOOSE and (old is not None or not found):
        found += metadata.errors(resource, obj["metadata"])
    return found
