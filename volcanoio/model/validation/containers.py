"""Validation of containers, their requests and limits (Kubernetes: pkg/apis/core/validation)."""

import re
from fractions import Fraction
from typing import Any

from volcanoio.model import quantity
from volcanoio.model.base import Manifest
from volcanoio.model.validation.dns_names import cached_by_text, label_rule, qualified_rule
from volcanoio.model.validation.field_errors import FieldError, duplicate, forbidden, invalid, required, unsupported

_STANDARD_RESOURCES = frozenset({"cpu", "memory", "ephemeral-storage"})
_QUANTITY_RULE = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


@cached_by_text(4096)
def _parse_amount(text: str) -> Fraction | None:
    try:
        return quantity.parse(text)
    except quantity.QuantityError:
        return None


@cached_by_text(1024)
def _name_rule(name: str) -> str:
    if name in _STANDARD_RESOURCES or name.startswith("hugepages-"):
        return ""
    if "/" not in name:
        return "must be a standard resource type or fully qualified"
    return qualified_rule(name)


def resource_errors(resources: Any, path: str) -> list[FieldError]:
    """Return the errors of `resources`: names, amounts, and requests above limits."""
    if not resources:
        return []
    if not isinstance(resources, dict):
        return [invalid(path, resources, "must be an object with requests and limits")]
    errors: list[FieldError] = []
    limits = _parse_amounts(resources.get("limits"), f"{path}.limits", errors)
    requests = _parse_amounts(resources.get("requests"), f"{path}.requests", errors)
    for name, (shown, asked) in requests.items():
        limit = limits.get(name)
        overcommits = name in _STANDARD_RESOURCES
        if limit is None:
            if not overcommits:
                errors.append(required(f"{path}.limits", "Limit must be set for non overcommitable resources"))
        elif overcommits and asked > limit[1]:
            errors.append(
                invalid(f"{path}.requests", shown, f"must be less than or equal to {name} limit of {limit[0]}")
            )
        elif not overcommits and asked != limit[1]:
            errors.append(invalid(f"{path}.requests", shown, f"must be equal to {name} limit of {limit[0]}"))
    return errors


def _parse_amounts(named: Any, path: str, errors: list[FieldError]) -> dict[str, tuple[str, Fraction]]:
    """Return valid amounts by name, as text and number; the others become errors."""
    if not isinstance(named, dict):
        if named is not None:
            errors.append(invalid(path, named, "must be an object of quantities"))
        return {}
    found: dict[str, tuple[str, Fraction]] = {}
    for name, value in named.items():
        text = str(value)
        amount = None if isinstance(value, bool) else _parse_amount(text)
        if rule := _name_rule(name):
            errors.append(invalid(f"{path}[{name}]", name, rule))
            if "/" not in name:
                errors.append(invalid(f"{path}[{name}]", name, "must be a standard resource for containers"))
        elif amount is None:
            errors.append(invalid(f"{path}[{name}]", value, _QUANTITY_RULE))
        elif amount < 0:
            errors.append(invalid(f"{path}[{name}]", text, "must be greater than or equal to 0"))
        elif name not in _STANDARD_RESOURCES and amount.denominator != 1:
            errors.append(invalid(f"{path}[{name}]", text, "must be an integer"))
        else:
            found[name] = (text, amount)
    return found


_ENUMS = {
    "imagePullPolicy": ("Always", "IfNotPresent", "Never"),
    "terminationMessagePolicy": ("File", "FallbackToLogsOnError"),
}
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_PROBE_HANDLERS = frozenset({"exec", "httpGet", "tcpSocket", "grpc"})
_ENV_FIELDS = re.compile(
    r"metadata\.(name|namespace|uid|(annotations|labels)\['.+'\])"
    r"|spec\.(nodeName|serviceAccountName)|status\.(hostIP|hostIPs|podIP|podIPs)"
).fullmatch
"""Fields of its pod that an environment variable may refer to."""
_ENV_NAME = re.compile(r"[ -<>-~]+").fullmatch
_PORT_NAME = re.compile(r"(?=.{1,15}$)(?=.*[a-z])[a-z0-9]([a-z0-9]|-(?!-))*(?<!-)").fullmatch
_PORT_RULE = "must be between 1 and 65535, inclusive"


@cached_by_text(8192)
def _is_env_name(name: str) -> bool:
    return _ENV_NAME(name) is not None


def container_errors(container: Manifest, path: str) -> list[FieldError]:
    """Return the errors of a container at `path`, except those that involve other containers and volumes."""
    errors = _name_and_image_errors(container, path)
    for field, values in _ENUMS.items():
        if (policy := container.get(field)) and policy not in values:
            errors.append(unsupported(f"{path}.{field}", policy, values))
    for field in _PROBES:
        if isinstance(probe := container.get(field), dict) and not probe.keys() & _PROBE_HANDLERS:
            errors.append(required(f"{path}.{field}", "must specify a handler type"))
    errors += _list_errors(container, path)
    if resources := container.get("resources"):
        errors += resource_errors(resources, f"{path}.resources")
    return errors


def _name_and_image_errors(container: Manifest, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if not (name := container.get("name")):
        errors.append(required(f"{path}.name"))
    elif rule := label_rule(str(name)):
        errors.append(invalid(f"{path}.name", name, rule))
    if not (image := container.get("image")):
        errors.append(required(f"{path}.image"))
    elif image != str(image).strip():
        errors.append(invalid(f"{path}.image", image, "must not have leading or trailing whitespace"))
    return errors


def _list_errors(container: Manifest, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for field, check in _LIST_CHECKS.items():
        if value := container.get(field):
            if isinstance(value, list) and all(isinstance(one, dict) for one in value):
                errors += check(value, f"{path}.{field}")
            else:
                errors.append(invalid(f"{path}.{field}", value, "must be a list of objects"))
    for field in ("command", "args"):
        value = container.get(field)
        if value and not (isinstance(value, list) and all(isinstance(one, str) for one in value)):
            errors.append(invalid(f"{path}.{field}", value, "must be a list of strings"))
    return errors


def env_errors(env: list[Manifest], path: str) -> list[FieldError]:
    """Return the errors of a container's environment."""
    errors: list[FieldError] = []
    for at, one in enumerate(env):
        name, value = one.get("name"), one.get("value")
        if type(name) is str and type(value) is str and _is_env_name(name) and (not value or "valueFrom" not in one):
            continue
        where = f"{path}[{at}]"
        if not name:
            errors.append(required(f"{where}.name"))
        elif not _is_env_name(str(name)):
            rule = "a valid environment variable name must consist only of printable ASCII characters other than '='"
            errors.append(invalid(f"{where}.name", name, rule))
        if value is not None and not isinstance(value, str):
            errors.append(invalid(f"{where}.value", value, "must be a string; put it in quotes"))
        if value and one.get("valueFrom"):
            errors.append(invalid(f"{where}.valueFrom", "", "may not be specified when `value` is not empty"))
        errors += _source_errors(one.get("valueFrom"), f"{where}.valueFrom")
    return errors


def _source_errors(source: Any, path: str) -> list[FieldError]:
    reference = source.get("fieldRef") if isinstance(source, dict) else None
    if not isinstance(reference, dict):
        return []
    if not (field := reference.get("fieldPath")):
        return [required(f"{path}.fieldRef.fieldPath")]
    if _ENV_FIELDS(str(field)):
        return []
    rule = f"error converting fieldPath: field label not supported: {field}"
    return [invalid(f"{path}.fieldRef.fieldPath", field, rule)]


def _port_errors(ports: list[Manifest], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    names: set[Any] = set()
    for at, one in enumerate(ports):
        where = f"{path}[{at}]"
        number, name = one.get("containerPort"), one.get("name")
        if not number:
            errors.append(required(f"{where}.containerPort"))
        elif not _is_port(number):
            errors.append(invalid(f"{where}.containerPort", number, _PORT_RULE))
        if one.get("hostPort") and not _is_port(one["hostPort"]):
            errors.append(invalid(f"{where}.hostPort", one["hostPort"], _PORT_RULE))
        if one.get("protocol") and one["protocol"] not in _PROTOCOLS:
            errors.append(unsupported(f"{where}.protocol", one["protocol"], _PROTOCOLS))
        if name:
            if not _PORT_NAME(str(name)):
                rule = (
                    "must be 1 to 15 lower case letters, digits or '-', with a letter and no '-' at an end or doubled"
                )
                errors.append(invalid(f"{where}.name", name, rule))
            if name in names:
                errors.append(duplicate(f"{where}.name", name))
            names.add(name)
    return errors


def _mount_errors(mounts: list[Manifest], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    paths: set[Any] = set()
    for at, one in enumerate(mounts):
        where = f"{path}[{at}]"
        if not one.get("name"):
            errors.append(required(f"{where}.name"))
        if not (mount_path := one.get("mountPath")):
            errors.append(required(f"{where}.mountPath"))
        elif mount_path in paths:
            errors.append(invalid(f"{where}.mountPath", mount_path, "must be unique"))
        paths.add(mount_path)
        if (sub_path := one.get("subPath")) and (str(sub_path).startswith("/") or ".." in str(sub_path).split("/")):
            errors.append(forbidden(f"{where}.subPath", "must be a relative path without '..'"))
    return errors


def _is_port(number: Any) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and 1 <= number <= 65535


_LIST_CHECKS = {"env": env_errors, "ports": _port_errors, "volumeMounts": _mount_errors}
