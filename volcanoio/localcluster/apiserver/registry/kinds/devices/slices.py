"""ResourceSlices: defaults and validation."""

from __future__ import annotations

from typing import Any, Final

from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.registry.kinds.devices.parts import (
    EFFECTS,
    condition_errors,
    driver_errors,
    each,
    pool_errors,
    property_errors,
    repeated,
)
from volcanoio.localcluster.apiserver.registry.kinds.rules import IMMUTABLE, at, fill, listed, name_errors, spec_of
from volcanoio.localcluster.apiserver.registry.kinds.strategy import Strategy
from volcanoio.model.base import Manifest
from volcanoio.model.cel.functions.kubernetes import is_semver
from volcanoio.model.quantity import parse
from volcanoio.model.validation.dns_names import qualified_rule, subdomain_rule, value_rule
from volcanoio.model.validation.field_errors import (
    FieldError,
    forbidden,
    invalid,
    required,
    too_long,
    too_many,
    unsupported,
)
from volcanoio.model.validation.placement import node_selector_term_errors

_NODES: Final = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")
_DEVICE_NODES: Final = _NODES[:3]
_MAX_DEVICES, _MAX_ADVANCED = 128, 64
"""Devices of a slice, and of one whose devices have taints or consume counters."""
_MAX_COUNTER_SETS, _MAX_CONSUMPTIONS, _MAX_TAINTS = 8, 2, 16
_MAX_COUNTERS: Final = 32
_MAX_PROPERTIES, _MAX_VALUE = 32, 64
_ATTRIBUTES: Final = ("bool", "int", "string", "version", "bools", "ints", "strings", "versions")


def _default_slice(resource_slice: Manifest, core: Core) -> None:
    for device in listed(spec_of(resource_slice).get("devices")):
        for taint in listed(device.get("taints")):
            fill(taint, timeAdded=core.now())


def _validate_slice(resource_slice: Manifest) -> list[FieldError]:
    spec = resource_slice.get("spec") or {}
    pool = spec.get("pool") or {}
    found = driver_errors(spec.get("driver"), "spec.driver") + pool_errors(pool.get("name"), "spec.pool.name")
    if (pool.get("resourceSliceCount") or 0) <= 0:
        rule = "must be greater than zero"
        found.append(invalid("spec.pool.resourceSliceCount", pool.get("resourceSliceCount") or 0, rule))
    if (pool.get("generation") or 0) < 0:
        found.append(invalid("spec.pool.generation", pool["generation"], "must be greater than or equal to zero"))
    found += _node_errors(spec, "spec", _NODES)
    if spec.get("sharedCounters") is not None and spec.get("devices") is not None:
        found.append(invalid("spec", "", "only one of `sharedCounters` or `devices` is allowed"))
    devices, sets = listed(spec.get("devices")), listed(spec.get("sharedCounters"))
    is_advanced = any(device.get("taints") or device.get("consumesCounters") for device in devices)

    def device_errors(device: Manifest, path: str) -> list[FieldError]:
        return _device_errors(device, path, own_nodes=bool(spec.get("perDeviceNodeSelection")))

    found += each(devices, "spec.devices", device_errors, _MAX_ADVANCED if is_advanced else _MAX_DEVICES)
    found += repeated([device.get("name") for device in devices], "spec.devices")
    found += each(sets, "spec.sharedCounters", _counter_set_errors, _MAX_COUNTER_SETS)
    return found + repeated([one.get("name") for one in sets], "spec.sharedCounters")


def _node_errors(holder: Manifest, path: str, fields: tuple[str, ...]) -> list[FieldError]:
    """Return errors of the fields that name nodes: exactly one is set."""
    found: list[FieldError] = []
    name, selector = holder.get("nodeName"), holder.get("nodeSelector")
    if name == "":
        found.append(invalid(f"{path}.nodeName", name, "must be either unset or set to a non-empty string"))
    elif name and (text := subdomain_rule(name)):
        found.append(invalid(f"{path}.nodeName", name, text))
    if selector is not None:
        terms, where = listed(selector.get("nodeSelectorTerms")), f"{path}.nodeSelector.nodeSelectorTerms"
        if len(terms) != 1:
            found.append(invalid(where, selector.get("nodeSelectorTerms"), "must have exactly one node selector term"))
        found += each(terms, where, node_selector_term_errors)
    found += [
        invalid(f"{path}.{field}", False, "must be either unset or set to true")
        for field in fields[2:]
        if holder.get(field) is False
    ]
    given = [f"`{field}`" for field in fields if holder.get(field)]
    needed = f"exactly one of {', '.join(f'`{field}`' for field in fields)} is required"
    if len(fields) == len(_DEVICE_NODES):
        needed = (
            "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set "
            "to true in the ResourceSlice spec"
        )
    if not given:
        found.append(required(path, needed))
    elif len(given) > 1:
        more = ", but multiple fields are set" if fields is _NODES else ""
        found.append(invalid(path, f"{{{', '.join(given)}}}", f"{needed}{more}"))
    return found


def _device_errors(device: Manifest, path: str, *, own_nodes: bool) -> list[FieldError]:
    found = name_errors(device.get("name"), f"{path}.name")
    attributes, capacity = device.get("attributes") or {}, device.get("capacity") or {}
    if (count := len(attributes) + len(capacity)) > _MAX_PROPERTIES:
        rule = f"the total number of attributes and capacities must not exceed {_MAX_PROPERTIES}"
        found.append(invalid(path, count, rule))
    for name, attribute in sorted(attributes.items()):
        found += property_errors(name, f"{path}.attributes")
        found += _attribute_errors(attribute or {}, f"{path}.attributes[{name}]")
    is_shared = bool(device.get("allowMultipleAllocations"))
    for name, amount in sorted(capacity.items()):
        found += property_errors(name, f"{path}.capacity")
        found += _capacity_errors(amount or {}, f"{path}.capacity[{name}]", is_shared=is_shared)
    found += each(device.get("taints"), f"{path}.taints", _taint_errors, _MAX_TAINTS)
    found += each(device.get("consumesCounters"), f"{path}.consumesCounters", _consumption_errors, _MAX_CONSUMPTIONS)
    sets = [one.get("counterSet") for one in listed(device.get("consumesCounters"))]
    found += repeated(sets, f"{path}.consumesCounters") + condition_errors(device, path)
    if own_nodes:
        return found + _node_errors(device, path, _DEVICE_NODES)
    if any(device.get(field) is not None for field in _DEVICE_NODES):
        rule = (
            "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in "
            "the ResourceSlice spec"
        )
        found.append(invalid(path, None, rule))
    return found


def _attribute_errors(attribute: Manifest, path: str) -> list[FieldError]:
    given = [field for field in _ATTRIBUTES if attribute.get(field) is not None]
    found: list[FieldError] = []
    for field in ("string", "version"):
        value = attribute.get(field)
        if field == "version" and value is not None and not is_semver(value):
            found.append(invalid(f"{path}.version", value, "must be a string compatible with semver.org spec 2.0.0"))
        if value is not None and len(value) > _MAX_VALUE:
            found.append(too_long(f"{path}.{field}", _MAX_VALUE))
    if len(given) != 1:
        found.append(invalid(path, attribute if given else "", "exactly one value must be specified"))
    return found


def _capacity_errors(capacity: Manifest, path: str, *, is_shared: bool) -> list[FieldError]:
    policy, where = capacity.get("requestPolicy"), f"{path}.requestPolicy"
    if not isinstance(policy, dict):
        return []
    if not is_shared:
        return [forbidden(where, "allowMultipleAllocations must be true")]
    values, bounds, default = policy.get("validValues"), policy.get("validRange"), policy.get("default")
    if values and bounds is not None:
        rule = 'exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time'
        return [forbidden(where, rule)]
    kind = "validValues" if values else "validRange" if bounds is not None else ""
    if kind and default is None:
        return [required(f"{where}.default", f"required when {kind} is defined")]
    if values:
        return _value_errors(values, default, capacity.get("value"), f"{where}.validValues")
    return _range_errors(bounds, default, capacity.get("value"), f"{where}.validRange") if bounds is not None else []


def _value_errors(values: list[Any], default: Any, most: Any, path: str) -> list[FieldError]:
    amounts = [parse(str(value)) for value in values]
    found = [
        invalid(f"{path}[{index + 1}]", str(values[index + 1]), "values must be sorted in ascending order")
        for index in range(len(values) - 1)
        if amounts[index] > amounts[index + 1]
    ]
    found += [
        invalid(f"{path}[{index}]", str(values[index]), f"option is larger than capacity value: {most}")
        for index, amount in enumerate(amounts)
        if amount > parse(str(most))
    ]
    if parse(str(default)) not in amounts:
        found.append(invalid(path, str(default), "default value is not valid according to the requestPolicy"))
    return found


def _range_errors(bounds: Manifest, default: Any, most: Any, path: str) -> list[FieldError]:
    least, upper, step = bounds.get("min"), bounds.get("max"), bounds.get("step")
    if least is None:
        return [required(f"{path}.min", "required when validRange is defined")]
    low, start, limit = parse(str(least)), parse(str(default)), parse(str(most))
    rules = [
        ("min", least, low > limit, f"min is larger than capacity value: {most}"),
        ("min", default, start < low, f"default is less than min: {least}"),
    ]
    if upper is not None:
        high = parse(str(upper))
        rules += [
            ("max", least, low > high, f"min is larger than max: {upper}"),
            ("max", upper, high > limit, f"max is larger than capacity value: {most}"),
            ("max", default, start > high, f"default is more than max: {upper}"),
        ]
    if step is not None and (size := parse(str(step))) > 0:
        text = f"value is not a multiple of a given step ({step}) from ({least})"
        ends = [default, *([] if upper is None else [upper])]
        rules += [("step", end, bool((parse(str(end)) - low) % size), text) for end in ends]
    return [invalid(f"{path}.{field}", str(value), rule) for field, value, breaks, rule in rules if breaks]


def _taint_errors(taint: Manifest, path: str) -> list[FieldError]:
    found = name_errors(taint.get("key"), f"{path}.key", qualified_rule)
    value, effect = taint.get("value") or "", taint.get("effect")
    if value and (text := value_rule(value)):
        found.append(invalid(f"{path}.value", value, text))
    if not effect:
        return [*found, required(f"{path}.effect")]
    return found if effect in EFFECTS else [*found, unsupported(f"{path}.effect", effect, EFFECTS)]


def _counter_set_errors(counters: Manifest, path: str) -> list[FieldError]:
    return name_errors(counters.get("name"), f"{path}.name") + _counter_errors(counters, path)


def _consumption_errors(consumption: Manifest, path: str) -> list[FieldError]:
    return name_errors(consumption.get("counterSet"), f"{path}.counterSet") + _counter_errors(consumption, path)


def _counter_errors(holder: Manifest, path: str) -> list[FieldError]:
    counters = holder.get("counters") or {}
    if not counters:
        return [required(f"{path}.counters")]
    if len(counters) > _MAX_COUNTERS:
        return [too_many(f"{path}.counters", len(counters), _MAX_COUNTERS)]
    return [error for name in sorted(counters) for error in name_errors(name, f"{path}.counters")]


def _validate_slice_update(new: Manifest, old: Manifest) -> list[FieldError]:
    fields = ("spec.pool.name", "spec.driver", "spec.nodeName")
    return [invalid(field, at(new, field), IMMUTABLE) for field in fields if at(new, field) != at(old, field)]


RESOURCE_SLICES: Final = Strategy(
    default=_default_slice, validate=_validate_slice, validate_update=_validate_slice_update
)
