"""Selectors of devices: CEL expressions over `device`, with its driver, attributes and capacity.

Attributes and capacities are maps by domain and name; a name without a domain has the driver's. A domain that the
device does not have is an empty map, a name that it does not have is an error (Kubernetes:
k8s.io/dynamic-resource-allocation/cel). A compiled expression is cached.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

from volcanoio.model.cel import DYN, CompileError, EvaluationError, Program, ResultError, compile_expression
from volcanoio.model.cel.functions.kubernetes import Quantity, parse_semver
from volcanoio.model.cel.types import BOOL, STRING, Field, Type, map_of, object_of, opaque
from volcanoio.model.cel.values import DefaultMap
from volcanoio.model.dynamic_resources.objects import Device
from volcanoio.model.quantity import parse

MAX_LENGTH: Final = 10 * 1024
"""Maximum length of an expression (CELSelectorExpressionMaxLength)."""
MAX_COST: Final = 1_000_000
"""Maximum cost of an expression (CELSelectorExpressionMaxCost)."""
_MAX_PROPERTIES: Final = 32
"""Maximum number of attributes and capacities of a device (ResourceSliceMaxAttributesAndCapacitiesPerDevice)."""


def _sized(one: Type, most: int) -> Type:
    return replace(one, most=most)


def _properties(value: Type) -> Type:
    """Return the type of maps by domain and name."""
    by_name = _sized(map_of(_sized(STRING, 32), value), _MAX_PROPERTIES)
    return _sized(map_of(_sized(STRING, 63), by_name), _MAX_PROPERTIES)


_DEVICE: Final = object_of(
    "kubernetes.DRADevice",
    {
        "driver": Field("driver", _sized(STRING, 63)),
        "allowMultipleAllocations": Field("allowMultipleAllocations", BOOL),
        "attributes": Field("attributes", _properties(_sized(DYN, 64))),
        "capacity": Field("capacity", _properties(opaque("kubernetes.Quantity"))),
    },
)
_VARIABLES: Final[Mapping[str, Type]] = {"device": _DEVICE}


class SelectorError(ValueError):
    """The expression cannot be compiled, or its evaluation for a device failed."""


@lru_cache(maxsize=1024)
def compile_selector(expression: str) -> Program:
    """Return the program of an expression; raises SelectorError."""
    try:
        program = compile_expression(expression, _VARIABLES, binds=True)
    except ResultError as error:
        raise SelectorError(str(error)) from None
    except CompileError as error:
        raise SelectorError(f"compilation failed: {error}") from None
    if program.type not in (BOOL, DYN):
        raise SelectorError(f"must evaluate to bool or the unknown type, not {program.type}")
    return program


def device_variables(driver: str, device: Device) -> Mapping[str, Any]:
    """Return the values of an expression's variables for a device of a driver; raises SelectorError."""
    attributes, capacity = DefaultMap(), DefaultMap()
    attributes.default = capacity.default = {}
    for name, attribute in device.attributes.items():
        if (known := attribute.value) is None:
            raise SelectorError(f"attribute {name}: unsupported attribute value")
        kind, value = known
        domain, identifier = split_name(name, driver)
        try:
            attributes.setdefault(domain, {})[identifier] = parse_semver(str(value)) if kind == "version" else value
        except ValueError as error:
            raise SelectorError(f"attribute {name}: parse semantic version: {error}") from None
    for name, amount in device.capacity.items():
        domain, identifier = split_name(name, driver)
        capacity.setdefault(domain, {})[identifier] = Quantity(parse(str(amount.value)))
    allows_many = device.allow_multiple_allocations
    described = {"driver": driver, "allowMultipleAllocations": allows_many}
    return {"device": {**described, "attributes": attributes, "capacity": capacity}}


def is_selected(program: Program, variables: Mapping[str, Any]) -> bool:
    """Return whether a device satisfies an expression; raises SelectorError."""
    try:
        value = program.evaluate(variables)
    except EvaluationError as error:
        raise SelectorError(str(error)) from None
    if type(value) is not bool:
        raise SelectorError("the result is not a bool")
    return value


def split_name(name: str, driver: str) -> tuple[str, str]:
    """Return the domain and the identifier of an attribute's or capacity's name; the default domain is the driver."""
    domain, slash, identifier = name.partition("/")
    return (domain, identifier) if slash else (driver, name)
