"""Rules and defaults that several kinds share (Kubernetes: apimachinery `pkg/util/validation`).

Includes the rules of a `metav1.LabelSelector` (apimachinery `pkg/apis/meta/v1/validation`).
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable
from typing import Any, Final

from volcanoio.model.base import Manifest
from volcanoio.model.validation.dns_names import label_errors, label_rule, qualified_rule, subdomain_rule, value_rule
from volcanoio.model.validation.field_errors import FieldError, forbidden, invalid, required, unsupported

IMMUTABLE: Final = "field is immutable"
PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
PERCENT_RULE: Final = (
    "a valid percent string must be a numeric string followed by an ending '%' "
    "(e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
)
NO_ADDRESS: Final = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
NO_BLOCK: Final = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
_PERCENT = re.compile(r"[0-9]+%").fullmatch
_PORT_NAME = re.compile(r"[-a-z0-9]+").fullmatch
_WILDCARD = re.compile(r"\*\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*").fullmatch
_WILDCARD_RULE: Final = (
    "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of "
    "lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', "
    r"regex used for validation is '\*\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)


def spec_of(obj: Manifest) -> Manifest:
    """Return the spec, created when it is missing."""
    return child(obj, "spec")


def child(obj: Manifest, key: str) -> Manifest:
    """Return an object field, created when it is missing."""
    found = obj.get(key)
    if not isinstance(found, dict):
        found = obj[key] = {}
    return found


def fill(obj: Manifest, **defaults: Any) -> Manifest:
    """Set missing fields; returns the object."""
    for key, value in defaults.items():
        if obj.get(key) is None:
            obj[key] = value
    return obj


def listed(items: Any) -> list[Manifest]:
    """Return the objects of a list; empty for other values."""
    return [one for one in items if isinstance(one, dict)] if isinstance(items, list) else []


def negative_errors(holder: Manifest, path: str, *names: str) -> list[FieldError]:
    """Return errors of negative counts."""
    return [
        invalid(f"{path}.{name}", holder[name], "must be greater than or equal to 0")
        for name in names
        if isinstance(holder.get(name), int) and holder[name] < 0
    ]


def choice_errors(holder: Manifest, path: str, name: str, choices: Iterable[str]) -> list[FieldError]:
    """Return errors of a field that is not one of the valid values."""
    value, known = holder.get(name), tuple(choices)
    return [] if value is None or value in known else [unsupported(f"{path}.{name}", value, known)]


def port_errors(number: Any, path: str) -> list[FieldError]:
    """Return errors of a port number."""
    good = isinstance(number, int) and 1 <= number <= 65535
    return [] if good else [invalid(path, number or 0, "must be between 1 and 65535, inclusive")]


def port_name_errors(name: str, path: str) -> list[FieldError]:
    """Return errors of a port name (IANA service name)."""
    rules = (
        (len(name) <= 15, "must be no more than 15 characters"),
        (bool(_PORT_NAME(name)), "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"),
        (any("a" <= one <= "z" for one in name), "must contain at least one letter (a-z)"),
        ("--" not in name, "must not contain consecutive hyphens"),
        (not (name.startswith("-") or name.endswith("-")), "must not begin or end with a hyphen"),
    )
    return [invalid(path, name, rule) for holds, rule in rules if not holds]


def count_or_percent_errors(amount: Any, path: str) -> list[FieldError]:
    """Return errors of a count or percentage."""
    if isinstance(amount, str):
        return [] if _PERCENT(amount) else [invalid(path, amount, PERCENT_RULE)]
    return [invalid(path, amount, "must be greater than or equal to 0")] if amount < 0 else []


def percentage_errors(amount: Any, path: str) -> list[FieldError]:
    """Return errors of a percentage above 100."""
    over = isinstance(amount, str) and _PERCENT(amount) and int(amount[:-1]) > 100
    return [invalid(path, amount, "must not be greater than 100%")] if over else []


def number_of(amount: Any) -> int:
    """Return the number in a count or percentage; 0 for other values."""
    if isinstance(amount, str):
        digits = amount.removesuffix("%")
        return int(digits) if digits.isdigit() else 0
    return amount if isinstance(amount, int) else 0


def segment_rule(name: str) -> list[str]:
    """Return the reason why a name cannot be a path segment; empty when it can."""
    if name in {".", ".."}:
        return [f"may not be '{name}'"]
    return [f"may not contain '{one}'" for one in "/%" if one in name]


def is_address(text: str) -> bool:
    """Return whether a text is an IPv4 or IPv6 address."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def network_of(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    """Parse a network in CIDR notation; None for invalid text."""
    try:
        return ipaddress.ip_network(text, strict=False) if "/" in text else None
    except ValueError:
        return None


def is_block(text: str) -> bool:
    """Return whether a text is a network in CIDR notation."""
    return network_of(text) is not None


def host_rule(host: str) -> str:
    """Return the error of a host name that may begin with a wildcard; empty when it is valid."""
    if "*" in host:
        return "" if _WILDCARD(host) else _WILDCARD_RULE
    return subdomain_rule(host)


def immutable(*names: str) -> Callable[[Manifest, Manifest], list[FieldError]]:
    """Return a check that reports changes of immutable fields, given by path."""

    def errors(new: Manifest, old: Manifest) -> list[FieldError]:
        return [
            invalid(name, at(new, name) or ("" if isinstance(at(old, name), str) else at(new, name)), IMMUTABLE)
            for name in names
            if (at(new, name) or None) != (at(old, name) or None)
        ]

    return errors


def at(obj: Manifest, path: str) -> Any:
    """Return the value at a path such as `spec.selector`; None when it is missing."""
    found: Any = obj
    for key in path.split("."):
        found = found.get(key) if isinstance(found, dict) else None
    return found


def needed(holder: Manifest, path: str, *names: str) -> list[FieldError]:
    """Return errors of required fields that are empty."""
    return [required(f"{path}.{name}") for name in names if not holder.get(name)]


def name_errors(name: Any, path: str, rule: Callable[[str], str] = label_rule) -> list[FieldError]:
    """Return errors of a required name."""
    if not name:
        return [required(path)]
    return [invalid(path, name, text)] if (text := rule(name)) else []


def reference_errors(reference: Manifest, path: str) -> list[FieldError]:
    """Return errors of the kind and name of a referenced object."""
    found: list[FieldError] = []
    for name in ("kind", "name"):
        value = reference.get(name)
        if not value:
            found.append(required(f"{path}.{name}"))
        else:
            found += [invalid(f"{path}.{name}", value, rule) for rule in segment_rule(value)]
    return found


def label_selector_errors(selector: Any, path: str) -> list[FieldError]:
    """Return validation errors of a label selector; none for a missing one."""
    if not isinstance(selector, dict):
        return []
    found = label_errors(selector.get("matchLabels"), f"{path}.matchLabels")
    for at, one in enumerate(selector.get("matchExpressions") or ()):
        found += _requirement_errors(one, f"{path}.matchExpressions[{at}]")
    return found


def _requirement_errors(one: dict[str, Any], path: str) -> list[FieldError]:
    operator, values, key = one.get("operator", ""), one.get("values") or (), one.get("key", "")
    found: list[FieldError] = []
    if operator in {"In", "NotIn"}:
        if not values:
            found.append(required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in {"Exists", "DoesNotExist"}:
        if values:
            rule = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            found.append(forbidden(f"{path}.values", rule))
    else:
        found.append(invalid(f"{path}.operator", operator, "not a valid selector operator"))
    if rule := qualified_rule(key):
        found.append(invalid(f"{path}.key", key, rule))
    found += [
        invalid(f"{path}.values[{at}]", value, rule) for at, value in enumerate(values) if (rule := value_rule(value))
    ]
    return found
