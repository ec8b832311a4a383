"""Volumes, claims and storage classes: defaults and rules (Kubernetes: pkg/apis/{core,storage}/validation)."""

from __future__ import annotations

from typing import Any, Final

from volcanoio.engine.admission.fielderrors import FieldError, forbidden, invalid, required, unsupported
from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.kinds.labelselectors import label_selector_errors
from volcanoio.localcluster.apiserver.kinds.strategy import Strategy
from volcanoio.localcluster.apiserver.plugins.amounts import amount
from volcanoio.model.base import Manifest
from volcanoio.model.quantity import QuantityError

_MODES: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_RECLAIM: Final = ("Delete", "Recycle", "Retain")
_CLASS_RECLAIM: Final = ("Delete", "Retain")
_BINDING: Final = ("Immediate", "WaitForFirstConsumer")
_NOT_SOURCES: Final = frozenset(
    {
        *("accessModes", "capacity", "claimRef", "mountOptions", "nodeAffinity", "persistentVolumeReclaimPolicy"),
        *("storageClassName", "volumeMode", "volumeAttributesClassName"),
    }
)
_IMMUTABLE: Final = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
)


def _spec(obj: Manifest) -> Manifest:
    spec = obj.get("spec")
    if not isinstance(spec, dict):
        spec = obj["spec"] = {}
    return spec


def _create_claim(claim: Manifest, core: Core) -> None:
    del core
    claim["status"] = {"phase": "Pending"}


def _create_volume(volume: Manifest, core: Core) -> None:
    volume["status"] = {"phase": "Pending", "lastPhaseTransitionTime": core.now()}


def _default_claim(claim: Manifest, core: Core) -> None:
    del core
    _spec(claim).setdefault("volumeMode", "Filesystem")


def _default_volume(volume: Manifest, core: Core) -> None:
    del core
    spec = _spec(volume)
    spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
    spec.setdefault("volumeMode", "Filesystem")
    if isinstance(spec.get("hostPath"), dict):
        spec["hostPath"].setdefault("type", "")


def _default_class(storage_class: Manifest, core: Core) -> None:
    del core
    storage_class.setdefault("reclaimPolicy", "Delete")
    storage_class.setdefault("volumeBindingMode", "Immediate")


def _mode_errors(modes: Any, hint: str = "") -> list[FieldError]:
    if not modes:
        return [required("spec.accessModes", hint)]
    found = [unsupported("spec.accessModes", mode, _MODES) for mode in modes if mode not in _MODES]
    if "ReadWriteOncePod" in modes and len(modes) > 1:
        found.append(forbidden("spec.accessModes", "may not use ReadWriteOncePod with other access modes"))
    return found


def _size_errors(text: Any, path: str) -> list[FieldError]:
    try:
        found = amount(text)
    except QuantityError as error:
        return [invalid(path, text, str(error))]
    return [] if found.value > 0 else [invalid(path, str(found), "must be greater than zero")]


def _validate_claim(claim: Manifest) -> list[FieldError]:
    spec = claim["spec"]
    found = label_selector_errors(spec.get("selector"), "spec.selector")
    found += _mode_errors(spec.get("accessModes"), "at least 1 access mode is required")
    size = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if size is None:
        return [*found, required("spec.resources[storage]")]
    return found + _size_errors(size, "spec.resources[storage]")


def _validate_claim_update(new: Manifest, old: Manifest) -> list[FieldError]:
    """A claim may be bound once, and may ask for more once it is bound."""
    after, before = dict(new["spec"]), dict(old["spec"])
    ignored = ["volumeAttributesClassName"]
    if not before.get("volumeName"):
        ignored.append("volumeName")
    if before.get("storageClassName") is None:
        ignored.append("storageClassName")
    bound = (old.get("status") or {}).get("phase") == "Bound" or before.get("volumeName")
    if bound:
        ignored.append("resources")
    changed = {key for key in after.keys() | before.keys() if after.get(key) != before.get(key)}
    if changed - set(ignored):
        return [forbidden("spec", _IMMUTABLE)]
    wanted, had = (((one.get("resources") or {}).get("requests") or {}).get("storage") for one in (after, before))
    if wanted is not None and had is not None and amount(wanted).value < amount(had).value:
        rule = "field can not be less than status.capacity"
        capacity = ((old.get("status") or {}).get("capacity") or {}).get("storage")
        if capacity is not None and amount(wanted).value < amount(capacity).value:
            return [forbidden("spec.resources.requests.storage", rule)]
    return []


def _validate_volume(volume: Manifest) -> list[FieldError]:
    spec = volume["spec"]
    found = _mode_errors(spec.get("accessModes"))
    sizes = spec.get("capacity") or {}
    if not sizes:
        found.append(required("spec.capacity"))
    if set(sizes) != {"storage"}:
        found.append(unsupported("spec.capacity", sizes or None, ("storage",)))
    for name, text in sorted(sizes.items()):
        found += _size_errors(text, f"spec.capacity[{name}]")
    policy = spec.get("persistentVolumeReclaimPolicy")
    if policy not in _RECLAIM:
        found.append(unsupported("spec.persistentVolumeReclaimPolicy", policy, _RECLAIM))
    if not set(spec) - _NOT_SOURCES:
        found.append(required("spec", "must specify a volume type"))
    return found


def _validate_class(storage_class: Manifest) -> list[FieldError]:
    found = [] if storage_class.get("provisioner") else [required("provisioner")]
    for field, choices in (("reclaimPolicy", _CLASS_RECLAIM), ("volumeBindingMode", _BINDING)):
        value = storage_class.get(field)
        if value not in choices:
            found.append(unsupported(field, value, choices))
    return found


def _validate_class_update(new: Manifest, old: Manifest) -> list[FieldError]:
    found = []
    if (new.get("parameters") or {}) != (old.get("parameters") or {}):
        found.append(forbidden("parameters", "updates to parameters are forbidden."))
    if new.get("provisioner") != old.get("provisioner"):
        found.append(forbidden("provisioner", "updates to provisioner are forbidden."))
    if new.get("reclaimPolicy") != old.get("reclaimPolicy"):
        found.append(invalid("reclaimPolicy", new.get("reclaimPolicy"), "field is immutable"))
    if new.get("volumeBindingMode") != old.get("volumeBindingMode"):
        found.append(invalid("volumeBindingMode", new.get("volumeBindingMode"), "field is immutable"))
    return found


CLAIMS: Final = Strategy(
    create=_create_claim, default=_default_claim, validate=_validate_claim, validate_update=_validate_claim_update
)
VOLUMES: Final = Strategy(create=_create_volume, default=_default_volume, validate=_validate_volume)
STORAGE_CLASSES: Final = Strategy(
    default=_default_class, validate=_validate_class, validate_update=_validate_class_update
)
