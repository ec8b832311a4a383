"""Rules that kinds of resource.k8s.io share: of names, selectors, tolerations and parameters."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import Any, Final

from volcanoio.localcluster.apiserver.registry.kinds.rules import listed
from volcanoio.model.base import Manifest
from volcanoio.model.dynamic_resources.selectors import MAX_COST, MAX_LENGTH, SelectorError, compile_selector
from volcanoio.model.validation.dns_names import qualified_rule, subdomain_rule, value_rule
from volcanoio.model.validation.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    required,
    too_long,
    too_many,
    unsupported,
)

MAX_SELECTORS: Final = 32
MAX_CONFIG: Final = 32
MAX_PARAMETERS: Final = 10 * 1024
EFFECTS: Final = ("NoExecute", "NoSchedule", "None")
_OPERATORS: Final = ("Equal", "Exists")
_MAX_DRIVER: Final = 63
_MAX_IDENTIFIER: Final = 32
_MAX_POOL: Final = 253
_MAX_CONDITIONS: Final = 4
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*").fullmatch
_IDENTIFIER_RULE: Final = (
    "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters "
    "or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')"
)


def each(
    items: Any, path: str, check: Callable[[Manifest, str], list[FieldError]], most: int | None = None
) -> list[FieldError]:
    """Return the errors of the objects of a list, or that there are too many of them."""
    entries = listed(items)
    if most is not None and len(entries) > most:
        return [too_many(path, len(entries), most)]
    return [error for at, entry in enumerate(entries) for error in check(entry, f"{path}[{at}]")]


def repeated(keys: Iterable[Any], path: str) -> list[FieldError]:
    """Return errors of keys that occur twice."""
    seen: list[Any] = []
    found = []
    for at, key in enumerate(keys):
        if key in seen:
            found.append(duplicate(f"{path}[{at}]", key))
        seen.append(key)
    return found


def driver_errors(name: Any, path: str) -> list[FieldError]:
    """Return errors of the name of a driver."""
    if not name:
        return [required(path)]
    found = [too_long(path, _MAX_DRIVER)] if len(name) > _MAX_DRIVER else []
    return found + ([invalid(path, name, text)] if (text := subdomain_rule(name.lower())) else [])


def pool_errors(name: Any, path: str) -> list[FieldError]:
    """Return errors of the name of a pool: subdomains separated by slashes."""
    if not name:
        return [required(path)]
    found = [too_long(path, _MAX_POOL)] if len(name) > _MAX_POOL else []
    return found + [invalid(path, part, text) for part in name.split("/") if (text := subdomain_rule(part))]


def property_errors(name: str, path: str, *, full: bool = False) -> list[FieldError]:
    """Return errors of the name of an attribute or capacity; with `full` it must have a domain."""
    domain, slash, identifier = name.partition("/")
    found: list[FieldError] = []
    if slash:
        found += driver_errors(domain, path) if domain else [invalid(path, "", "the domain must not be empty")]
        if not identifier:
            found.append(invalid(path, "", "the name must not be empty"))
    else:
        identifier = name
    if len(identifier) > _MAX_IDENTIFIER:
        found.append(too_long(path, _MAX_IDENTIFIER))
    if identifier and not _IDENTIFIER(identifier):
        found.append(invalid(path, identifier, _IDENTIFIER_RULE))
    if full and not slash:
        rule = "a fully qualified name must be a domain and a name separated by a slash"
        found.append(invalid(path, name, rule))
    return found


def selector_errors(selectors: Any, path: str) -> list[FieldError]:
    """Return errors of selectors: each is a CEL expression that compiles and is not too expensive."""
    return each(selectors, path, _selector_errors, MAX_SELECTORS)


def _selector_errors(selector: Manifest, path: str) -> list[FieldError]:
    cel = selector.get("cel")
    if not isinstance(cel, dict):
        return [required(f"{path}.cel")]
    expression, where = str(cel.get("expression") or ""), f"{path}.cel.expression"
    if len(expression) > MAX_LENGTH:
        return [too_long(where, MAX_LENGTH)]
    try:
        program = compile_selector(expression)
    except SelectorError as error:
        return [invalid(where, expression, str(error))]
    return [forbidden(where, "too complex, exceeds cost limit")] if program.most > MAX_COST else []


def config_errors(config: Manifest, path: str) -> list[FieldError]:
    """Return errors of parameters for a driver."""
    opaque = config.get("opaque")
    if not isinstance(opaque, dict):
        return [required(f"{path}.opaque")]
    found = driver_errors(opaque.get("driver"), f"{path}.opaque.driver")
    parameters, where = opaque.get("parameters"), f"{path}.opaque.parameters"
    if parameters is None:
        return [*found, required(where)]
    if len(json.dumps(parameters, separators=(",", ":"))) > MAX_PARAMETERS:
        return [*found, too_long(where, MAX_PARAMETERS)]
    is_object = isinstance(parameters, dict)
    return found if is_object else [*found, invalid(where, "<value omitted>", "must be a valid JSON object")]


def toleration_errors(toleration: Manifest, path: str) -> list[FieldError]:
    """Return errors of a toleration of device taints."""
    key, operator, value = toleration.get("key"), toleration.get("operator"), toleration.get("value") or ""
    found = [invalid(f"{path}.key", key, text)] if key and (text := qualified_rule(key)) else []
    if operator not in _OPERATORS:
        found.append(unsupported(f"{path}.operator", operator, _OPERATORS))
    elif operator == "Exists" and value:
        found.append(invalid(f"{path}.value", value, "must be empty for operator `Exists`"))
    elif operator == "Equal" and (text := value_rule(value)):
        found.append(invalid(f"{path}.value", value, text))
    effect = toleration.get("effect")
    return found + ([unsupported(f"{path}.effect", effect, EFFECTS)] if effect and effect not in EFFECTS else [])


def condition_errors(device: Manifest, path: str) -> list[FieldError]:
    """Return errors of the binding conditions and binding failure conditions of a device: both are set, or neither."""
    found: list[FieldError] = []
    names: dict[str, list[str]] = {}
    for field in ("bindingConditions", "bindingFailureConditions"):
        known = device.get(field)
        conditions = names[field] = [str(one) for one in known] if isinstance(known, list) else []
        where = f"{path}.{field}"
        if len(conditions) > _MAX_CONDITIONS:
            found.append(too_many(where, len(conditions), _MAX_CONDITIONS))
        else:
            texts = ((f"{where}[{at}]", one, qualified_rule(one)) for at, one in enumerate(conditions))
            found += [invalid(place, one, text) for place, one, text in texts if text]
        found += repeated(conditions, where)
    conditions, failures = names.values()
    where = f"{path}.bindingFailureConditions"
    found += [
        invalid(f"{where}[{at}]", condition, "bindingFailureConditions must not overlap with bindingConditions")
        for at, condition in enumerate(failures)
        if condition in conditions
    ]
    if failures and not conditions:
        rule = "bindingConditions are required to use bindingFailureConditions"
        found.append(invalid(f"{path}.bindingConditions", None, rule))
    if conditions and not failures:
        found.append(invalid(where, None, "bindingFailureConditions are required to use bindingConditions"))
    return found
