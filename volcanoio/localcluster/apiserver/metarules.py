"""Rules of finalizers and owner references (apimachinery `pkg/api/validation/objectmeta.go`, core `validation`)."""

from __future__ import annotations

from typing import Any, Final

from volcanoio.engine.admission.dnsnames import qualified_rule
from volcanoio.engine.admission.fielderrors import FieldError, invalid
from volcanoio.model.base import Manifest

_STANDARD: Final = frozenset({"orphan", "foregroundDeletion", "kubernetes"})
_FINALIZERS, _OWNERS = "metadata.finalizers", "metadata.ownerReferences"


def finalizer_errors(finalizers: Any, *, known: bool) -> list[FieldError]:
    """The broken rules of a list of finalizers; with `known` a name without a domain is one of Kubernetes' own."""
    if not isinstance(finalizers, list):
        return [invalid(_FINALIZERS, finalizers, "must be a list of names")]
    found = [invalid(_FINALIZERS, name, rule) for name in finalizers if (rule := qualified_rule(str(name)))]
    found += [
        invalid(f"{_FINALIZERS}[{at}]", name, "name is neither a standard finalizer name nor is it fully qualified")
        for at, name in enumerate(finalizers)
        if known and "/" not in str(name) and name not in _STANDARD
    ]
    if {"orphan", "foregroundDeletion"} <= set(map(str, finalizers)):
        rule = "finalizer orphan and foregroundDeletion cannot be both set"
        found.append(invalid(_FINALIZERS, finalizers, rule))
    return found


def owner_errors(owners: Any) -> list[FieldError]:
    """The broken rules of a list of owner references."""
    if not isinstance(owners, list):
        return [invalid(_OWNERS, owners, "must be a list of references")]
    found: list[FieldError] = []
    controllers: list[str] = []
    for owner in owners:
        if not isinstance(owner, dict):
            found.append(invalid(_OWNERS, owner, "must be a reference"))
            continue
        found += _one_owner(owner)
        if owner.get("controller") is True:
            controllers.append(str(owner.get("name", "")))
    if len(controllers) > 1:
        first, second = controllers[:2]
        rule = (
            f'Only one reference can have Controller set to true. Found "true" in references for {first} and {second}'
        )
        found.append(invalid(_OWNERS, owners, rule))
    return found


def _one_owner(owner: Manifest) -> list[FieldError]:
    version, kind = str(owner.get("apiVersion") or ""), owner.get("kind")
    found: list[FieldError] = []
    if not version or version.count("/") > 1 or version.endswith("/"):
        found.append(invalid(f"{_OWNERS}.apiVersion", version, "version must not be empty"))
    found += [
        invalid(f"{_OWNERS}.{field}", owner.get(field) or "", "must not be empty")
        for field in ("kind", "name", "uid")
        if not isinstance(owner.get(field), str) or not owner[field]
    ]
    if version == "v1" and kind == "Event":
        found.append(invalid(_OWNERS, owner, "/v1, Kind=Event is disallowed from being an owner"))
    return found
