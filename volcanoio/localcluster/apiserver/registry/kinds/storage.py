"""Volumes, claims and storage classes: defaults and validation (Kubernetes: pkg/apis/{core,storage}/validation)."""

from __future__ import annotations

from typing import Any, Final

from volcanoio.localcluster.apiserver.admission.resource_amounts import amount
from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.registry.kinds.rules import (
    IMMUTABLE,
    choice_errors,
    fill,
    immutable,
    label_selector_errors,
    needed,
    spec_of,
)
from volcanoio.localcluster.apiserver.registry.kinds.strategy import Strategy
from volcanoio.model.base import Manifest
from volcanoio.model.quantity import QuantityError
from volcanoio.model.validation.dns_names import qualified_rule, subdomain_rule
from volcanoio.model.validation.field_errors import FieldError, forbidden, invalid, required, unsupported

_MODES: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_RECLAIM: Final = ("Delete", "Recycle", "Retain")
_RECYCLING: Final = (
    "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. "
    "Instead, the recommended approach is to use dynamic provisioning."
)
_VOLUME_MODES: Final = ("Block", "Filesystem")
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


def _create_claim(claim: Manifest, core: Core) -> None:
    del core
    claim["status"] = {"phase": "Pending"}


def _create_volume(volume: Manifest, core: Core) -> None:
    volume["status"] = {"phase": "Pending", "lastPhaseTransitionTime": core.now()}


def _default_claim(claim: Manifest, core: Core) -> None:
    del core
    spec = fill(spec_of(claim), volumeMode="Filesystem")
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if isinstance(source, dict) and reference is None:
        spec["dataSourceRef"] = dict(source)
    elif isinstance(reference, dict) and source is None and not reference.get("namespace"):
        spec["dataSource"] = dict(reference)


def _default_volume(volume: Manifest, core: Core) -> None:
    del core
    spec = spec_of(volume)
    spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
    spec.setdefault("volumeMode", "Filesystem")
    if isinstance(spec.get("hostPath"), dict):
        spec["hostPath"].setdefault("type", "")


def _default_class(storage_class: Manifest, core: Core) -> None:
    del core
    storage_class.setdefault("reclaimPolicy", "Delete")
    storage_class.setdefault("volumeBindingMode", "Immediate")


def _mode_errors(modes: Any, path: str, hint: str = "") -> list[FieldError]:
    if not modes:
        return [required(path, hint)]
    found = [unsupported(path, mode, _MODES) for mode in modes if mode not in _MODES]
    if "ReadWriteOncePod" in modes and len(set(modes) & set(_MODES)) > 1:
        found.append(forbidden(path, "may not use ReadWriteOncePod with other access modes"))
    return found


def _size_errors(text: Any, path: str) -> list[FieldError]:
    try:
        found = amount(text)
    except QuantityError as error:
        return [invalid(path, text, str(error))]
    return [] if found.value > 0 else [invalid(path, str(found), "must be greater than zero")]


def _validate_claim(claim: Manifest) -> list[FieldError]:
    return claim_errors(claim["spec"], "spec")


def claim_errors(spec: Manifest, path: str) -> list[FieldError]:
    """Return validation errors of a claim's spec."""
    found = label_selector_errors(spec.get("selector"), f"{path}.selector")
    found += _mode_errors(spec.get("accessModes"), f"{path}.accessModes", "at least 1 access mode is required")
    size, where = ((spec.get("resources") or {}).get("requests") or {}).get("storage"), f"{path}.resources[storage]"
    found += [required(where)] if size is None else _size_errors(size, where)
    name = spec.get("storageClassName")
    if name and (rule := subdomain_rule(name)):
        found.append(invalid(f"{path}.storageClassName", name, rule))
    return found + choice_errors(spec, path, "volumeMode", _VOLUME_MODES)


def _validate_claim_update(new: Manifest, old: Manifest) -> list[FieldError]:
    """Return errors of an update: a claim is bound once, and may grow once it is bound."""
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
    found = [forbidden("spec", _IMMUTABLE)] if changed - set(ignored) else []
    if "volumeMode" in changed:
        found.append(invalid("volumeMode", after.get("volumeMode"), "field is immutable"))
    parts = ((after.get("resources") or {}).get("requests"), (before.get("resources") or {}).get("requests"))
    wanted, had, capacity = (
        amount((one or {}).get("storage") or "0").value for one in (*parts, (old.get("status") or {}).get("capacity"))
    )
    if wanted < had and wanted <= capacity:
        rule = "field can not be less than status.capacity"
        found.append(forbidden("spec.resources.requests.storage", rule))
    return found


def _validate_volume(volume: Manifest) -> list[FieldError]:
    spec = volume["spec"]
    found = _mode_errors(spec.get("accessModes"), "spec.accessModes")
    sizes = spec.get("capacity") or {}
    if not sizes:
        found.append(required("spec.capacity"))
    if set(sizes) != {"storage"}:
        found.append(unsupported("spec.capacity", sizes, ("storage",)))
    for name, text in sorted(sizes.items()):
        if str(text).startswith("-"):
            found.append(
                invalid(f"spec.capacity[{name}]", int(amount(text).value), "must be a valid resource quantity")
            )
        found += _size_errors(text, f"spec.capacity[{name}]")
    policy = spec.get("persistentVolumeReclaimPolicy")
    if policy not in _RECLAIM:
        found.append(unsupported("spec.persistentVolumeReclaimPolicy", policy, _RECLAIM))
    found += _source_errors(spec)
    name = spec.get("storageClassName")
    if name and (rule := subdomain_rule(name)):
        found.append(invalid("spec.storageClassName", name, rule))
    return found + choice_errors(spec, "spec", "volumeMode", _VOLUME_MODES)


def _source_errors(spec: Manifest) -> list[FieldError]:
    """Return errors of a volume's source, of which there is exactly one."""
    types = [name for name in (*_SOURCES, *sorted(set(spec) - _NOT_SOURCES - set(_SOURCES))) if spec.get(name)]
    if not types:
        return [required("spec", "must specify a volume type")]
    first, *more = types
    found = _SOURCES[first](spec[first], f"spec.{first}") if first in _SOURCES else []
    if "local" in types and not spec.get("nodeAffinity"):
        found.append(required("spec.nodeAffinity", "Local volume requires node affinity"))
    return found + [forbidden(f"spec.{name}", "may not specify more than 1 volume type") for name in more]


def _host_path_errors(source: Manifest, path: str) -> list[FieldError]:
    text = source.get("path")
    if not text:
        return [required(f"{path}.path")]
    back = ".." in text.split("/")
    return [invalid(f"{path}.path", text, "must not contain '..'")] if back else []


def _nfs_errors(source: Manifest, path: str) -> list[FieldError]:
    found, text = needed(source, path, "server", "path"), source.get("path") or ""
    if not text.startswith("/"):
        found.append(invalid(f"{path}.path", text, "must be an absolute path"))
    return found


def _driver_errors(source: Manifest, path: str) -> list[FieldError]:
    driver = source.get("driver")
    found = needed(source, path, "driver")
    if driver and (rule := subdomain_rule(driver.lower())):
        found.append(invalid(f"{path}.driver", driver, rule))
    return found + needed(source, path, "volumeHandle")


_SOURCES: Final = {
    "hostPath": _host_path_errors,
    "nfs": _nfs_errors,
    "local": _host_path_errors,
    "csi": _driver_errors,
}
"""Validation of volume sources by type, in the order of checks."""


def _validate_volume_update(new: Manifest, old: Manifest) -> list[FieldError]:
    after, before = ({key: one["spec"][key] for key in one["spec"].keys() - _NOT_SOURCES} for one in (new, old))
    found: list[FieldError] = []
    if after != before:
        rule = "spec.persistentvolumesource is immutable after creation"
        found.append(forbidden("spec.persistentvolumesource", rule))
    mode = new["spec"].get("volumeMode")
    if mode != old["spec"].get("volumeMode"):
        found.append(invalid("volumeMode", mode, IMMUTABLE))
    return found


def _validate_class(storage_class: Manifest) -> list[FieldError]:
    name = storage_class.get("provisioner")
    found = [] if name else [required("provisioner")]
    if name and (rule := qualified_rule(name.lower())):
        found.append(invalid("provisioner", name.lower(), rule))
    if "" in (storage_class.get("parameters") or {}):
        found.append(invalid("parameters", "", "field can not be empty."))
    for field, choices in (("reclaimPolicy", _CLASS_RECLAIM), ("volumeBindingMode", _BINDING)):
        value = storage_class.get(field)
        if value not in choices:
            found.append(unsupported(field, value, choices))
    return found


CLAIMS: Final = Strategy(
    create=_create_claim, default=_default_claim, validate=_validate_claim, validate_update=_validate_claim_update
)


def _warn_volume(volume: Manifest, old: Manifest | None) -> list[str]:
    del old
    recycled = volume["spec"].get("persistentVolumeReclaimPolicy") == "Recycle"
    return [_RECYCLING] if recycled else []


VOLUMES: Final = Strategy(
    warn=_warn_volume,
    create=_create_volume,
    default=_default_volume,
    validate=_validate_volume,
    validate_update=_validate_volume_update,
)
STORAGE_CLASSES: Final = Strategy(
    default=_default_class,
    validate=_validate_class,
    validate_update=immutable("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"),
)
