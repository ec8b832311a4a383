"""ResourceClaims, their templates, and DeviceClasses: defaults, validation, and what a status may contain."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from volcanoio.localcluster.apiserver.apimachinery import errors
from volcanoio.localcluster.apiserver.apimachinery.objects import Ref
from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.registry.kinds.devices.parts import (
    MAX_CONFIG,
    condition_errors,
    config_errors,
    driver_errors,
    each,
    pool_errors,
    property_errors,
    repeated,
    selector_errors,
    toleration_errors,
)
from volcanoio.localcluster.apiserver.registry.kinds.rules import IMMUTABLE, fill, listed, name_errors, spec_of
from volcanoio.localcluster.apiserver.registry.kinds.strategy import Strategy
from volcanoio.model.base import Manifest
from volcanoio.model.dynamic_resources.objects import ALL_DEVICES, EXACT_COUNT, MAX_CONSUMERS, MAX_DEVICES
from volcanoio.model.validation.dns_names import annotation_errors, label_errors, qualified_rule, subdomain_rule
from volcanoio.model.validation.field_errors import (
    FieldError,
    forbidden,
    invalid,
    required,
    too_many,
    unsupported,
)

_MAX_CONSTRAINTS: Final = 32
_MAX_ALTERNATIVES: Final = 8
_ONE_OF: Final = "exactly one of `exactly` or `firstAvailable` is required"
_NO_REQUEST: Final = (
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
)
_ADMIN_ACCESS: Final = "resource.kubernetes.io/admin-access"
"""Label of namespaces whose claims may have admin access."""
_SOURCES: Final = ("FromClaim", "FromClass")


def _check_claim(claim: Manifest, core: Core) -> None:
    _check_admin_access(claim, spec_of(claim), "resourceclaims", core)


def _check_template(template: Manifest, core: Core) -> None:
    _check_admin_access(template, spec_of(spec_of(template)), "resourceclaimtemplates", core)


def _check_admin_access(obj: Manifest, spec: Manifest, plural: str, core: Core) -> None:
    """Refuse admin access to devices in a namespace that is not labelled for it; raises ApiError."""
    requests = listed((spec.get("devices") or {}).get("requests"))
    at = next((at for at, one in enumerate(requests) if (one.get("exactly") or {}).get("adminAccess")), None)
    if at is None:
        return
    namespace = core.store.get(Ref("namespaces", "", obj["metadata"].get("namespace", "")))
    if namespace is None or namespace.labels.get(_ADMIN_ACCESS) != "true":
        rule = f"admin access to devices requires the `{_ADMIN_ACCESS}: true` label on the containing namespace"
        error = forbidden(f"spec.devices.requests[{at}].adminAccess", rule)
        name = str(obj["metadata"].get("name", ""))
        raise errors.invalid_object(core.registry.builtin(f"{plural}.resource.k8s.io"), name, [error])


def _keep_status(new: Manifest, old: Manifest) -> None:
    """Drop the status of devices that are not allocated any more."""
    del old
    status = new.get("status")
    if isinstance(status, dict) and status.get("allocation") is None:
        status.pop("devices", None)


def _default_claim(claim: Manifest, core: Core) -> None:
    del core
    _default_devices(spec_of(claim))


def _default_template(template: Manifest, core: Core) -> None:
    del core
    _default_devices(spec_of(spec_of(template)))


def _default_devices(spec: Manifest) -> None:
    devices = spec.get("devices")
    for request in listed(devices.get("requests")) if isinstance(devices, dict) else ():
        exactly = request.get("exactly")
        for one in (*([exactly] if isinstance(exactly, dict) else []), *listed(request.get("firstAvailable"))):
            fill(one, allocationMode=EXACT_COUNT)
            if one["allocationMode"] == EXACT_COUNT and not one.get("count"):
                one["count"] = 1
            for toleration in listed(one.get("tolerations")):
                fill(toleration, operator="Equal")


def _validate_claim(claim: Manifest) -> list[FieldError]:
    return _spec_errors(claim.get("spec") or {}, "spec")


def _validate_template(template: Manifest) -> list[FieldError]:
    spec = template.get("spec") or {}
    meta = spec.get("metadata") or {}
    found = label_errors(meta.get("labels"), "spec.metadata.labels")
    found += annotation_errors(meta.get("annotations"), "spec.metadata.annotations")
    return found + _spec_errors(spec.get("spec") or {}, "spec.spec")


def _spec_errors(spec: Manifest, path: str) -> list[FieldError]:
    devices, where = spec.get("devices") or {}, f"{path}.devices"
    names = _request_names(devices)
    found = each(devices.get("requests"), f"{where}.requests", _request_errors, MAX_DEVICES)
    if len(requests := listed(devices.get("requests"))) <= MAX_DEVICES:
        found += repeated([one.get("name") for one in requests], f"{where}.requests")

    def constraint_errors(constraint: Manifest, at: str) -> list[FieldError]:
        errors = _reference_errors(constraint.get("requests"), f"{at}.requests", names)
        for field in ("matchAttribute", "distinctAttribute"):
            if constraint.get(field):
                return errors + property_errors(str(constraint[field]), f"{at}.{field}", full=True)
        rule = 'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'
        return [*errors, required(at, rule)]

    def claim_config_errors(config: Manifest, at: str) -> list[FieldError]:
        return _reference_errors(config.get("requests"), f"{at}.requests", names) + config_errors(config, at)

    found += each(devices.get("constraints"), f"{where}.constraints", constraint_errors, _MAX_CONSTRAINTS)
    return found + each(devices.get("config"), f"{where}.config", claim_config_errors, MAX_CONFIG)


def _request_names(devices: Manifest) -> Mapping[str, set[str]]:
    """Return the names of requests with those of their alternatives."""
    return {
        str(request.get("name")): {str(one.get("name")) for one in listed(request.get("firstAvailable"))}
        for request in listed(devices.get("requests"))
    }


def _reference_errors(references: Any, path: str, names: Mapping[str, set[str]]) -> list[FieldError]:
    """Return errors of names of requests."""
    entries = [str(one) for one in references] if isinstance(references, list) else []
    if len(entries) > MAX_DEVICES:
        return [too_many(path, len(entries), MAX_DEVICES)]
    found: list[FieldError] = []
    for at, entry in enumerate(entries):
        found += _name_errors(entry, f"{path}[{at}]", names)
    return found + repeated(entries, path)


def _name_errors(name: str, path: str, names: Mapping[str, set[str]]) -> list[FieldError]:
    request, slash, alternative = name.partition("/")
    is_known = request in names and (not slash or alternative in names[request])
    return [] if is_known else [invalid(path, name, _NO_REQUEST)]


def _request_errors(request: Manifest, path: str) -> list[FieldError]:
    found = name_errors(request.get("name"), f"{path}.name")
    exactly, alternatives = request.get("exactly"), listed(request.get("firstAvailable"))
    if isinstance(exactly, dict) and alternatives:
        return [*found, invalid(path, None, f"{_ONE_OF}, but multiple fields are set")]
    if isinstance(exactly, dict):
        return found + _exact_errors(exactly, f"{path}.exactly")
    if not alternatives:
        return [*found, required(path, _ONE_OF)]
    where = f"{path}.firstAvailable"
    found += each(alternatives, where, _alternative_errors, _MAX_ALTERNATIVES)
    return found + repeated([one.get("name") for one in alternatives], where)


def _alternative_errors(alternative: Manifest, path: str) -> list[FieldError]:
    return name_errors(alternative.get("name"), f"{path}.name") + _exact_errors(alternative, path)


def _exact_errors(request: Manifest, path: str) -> list[FieldError]:
    found = name_errors(request.get("deviceClassName"), f"{path}.deviceClassName", subdomain_rule)
    found += selector_errors(request.get("selectors"), f"{path}.selectors")
    mode, count = request.get("allocationMode"), request.get("count") or 0
    if mode == ALL_DEVICES and count:
        found.append(invalid(f"{path}.count", count, "must not be specified when allocationMode is 'All'"))
    elif mode == EXACT_COUNT and count <= 0:
        found.append(invalid(f"{path}.count", count, "must be greater than zero"))
    elif mode not in (ALL_DEVICES, EXACT_COUNT):
        found.append(unsupported(f"{path}.allocationMode", mode, (ALL_DEVICES, EXACT_COUNT)))
    return found + each(request.get("tolerations"), f"{path}.tolerations", toleration_errors)


def _immutable_spec(new: Manifest, old: Manifest) -> list[FieldError]:
    return [] if new.get("spec") == old.get("spec") else [invalid("spec", new.get("spec"), IMMUTABLE)]


def _validate_status(new: Manifest, old: Manifest) -> list[FieldError]:
    """Return errors of a new status: an allocation is never changed, and only an allocated claim is reserved."""
    status, before = new.get("status") or {}, old.get("status") or {}
    allocation, consumers = status.get("allocation"), listed(status.get("reservedFor"))
    found = each(consumers, "status.reservedFor", _consumer_errors, MAX_CONSUMERS)
    found += repeated([one.get("uid") for one in consumers], "status.reservedFor")
    if consumers and allocation is None:
        found.append(forbidden("status.reservedFor", "may not be specified when `allocated` is not set"))
    elif new["metadata"].get("deletionTimestamp"):
        known = listed(before.get("reservedFor"))
        if any(one not in known for one in consumers):
            rule = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
            found.append(forbidden("status.reservedFor", rule))
    found += _device_status_errors(listed(status.get("devices")), allocation)
    if allocation is None:
        return found
    if before.get("allocation") is not None:
        changed = allocation != before["allocation"]
        return found + ([invalid("status.allocation", allocation, IMMUTABLE)] if changed else [])
    return found + _allocation_errors(allocation, _request_names((new.get("spec") or {}).get("devices") or {}))


def _consumer_errors(consumer: Manifest, path: str) -> list[FieldError]:
    return [required(f"{path}.{field}") for field in ("resource", "name", "uid") if not consumer.get(field)]


def _device_status_errors(devices: list[Manifest], allocation: Manifest | None) -> list[FieldError]:
    results = listed(((allocation or {}).get("devices") or {}).get("results"))
    given = {_device_key(one) for one in results}
    return [
        invalid(f"status.devices[{at}]", one.get("device"), "must be an allocated device in the claim")
        for at, one in enumerate(devices)
        if _device_key(one) not in given
    ]


def _device_key(device: Manifest) -> tuple[Any, ...]:
    return tuple(device.get(field) for field in ("driver", "pool", "device", "shareID"))


def _allocation_errors(allocation: Manifest, names: Mapping[str, set[str]]) -> list[FieldError]:
    devices, path = allocation.get("devices") or {}, "status.allocation.devices"

    def result_errors(result: Manifest, at: str) -> list[FieldError]:
        found = _name_errors(str(result.get("request") or ""), f"{at}.request", names)
        found += driver_errors(result.get("driver"), f"{at}.driver") + pool_errors(result.get("pool"), f"{at}.pool")
        found += name_errors(result.get("device"), f"{at}.device") + condition_errors(result, at)
        share = result.get("shareID")
        return found + (_uid_errors(str(share), f"{at}.shareID") if share is not None else [])

    def allocated_config_errors(config: Manifest, at: str) -> list[FieldError]:
        source = config.get("source")
        found = _reference_errors(config.get("requests"), f"{at}.requests", names) + config_errors(config, at)
        return found if source in _SOURCES else [unsupported(f"{at}.source", source, _SOURCES), *found]

    found = each(devices.get("results"), f"{path}.results", result_errors, MAX_DEVICES)
    return found + each(devices.get("config"), f"{path}.config", allocated_config_errors, 2 * MAX_CONFIG)


def _uid_errors(text: str, path: str) -> list[FieldError]:
    try:
        is_normal = str(UUID(text)) == text
    except ValueError:
        is_normal = False
    rule = (
        "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` "
        "with lowercase hexadecimal characters"
    )
    return [] if is_normal else [invalid(path, text, rule)]


def _validate_class(device_class: Manifest) -> list[FieldError]:
    spec = device_class.get("spec") or {}
    found = selector_errors(spec.get("selectors"), "spec.selectors")
    found += each(spec.get("config"), "spec.config", config_errors, MAX_CONFIG)
    resource = spec.get("extendedResourceName")
    if resource is not None and not _is_extended(str(resource)):
        found.append(invalid("spec.extendedResourceName", resource, "must be a valid extended resource name"))
    return found


def _is_extended(resource: str) -> bool:
    """Return whether a resource is one that Kubernetes does not define (v1helper.IsExtendedResourceName)."""
    if "/" not in resource or "kubernetes.io/" in resource or resource.startswith("requests."):
        return False
    return not qualified_rule(f"requests.{resource}")


RESOURCE_CLAIMS: Final = Strategy(
    create=_check_claim,
    keep=_keep_status,
    default=_default_claim,
    validate=_validate_claim,
    validate_update=_immutable_spec,
    only_updates=True,
    validate_status=_validate_status,
)
RESOURCE_CLAIM_TEMPLATES: Final = Strategy(
    create=_check_template,
    default=_default_template,
    validate=_validate_template,
    validate_update=_immutable_spec,
    only_updates=True,
)
DEVICE_CLASSES: Final = Strategy(validate=_validate_class)
