"""Rules about one container (Kubernetes: pkg/apis/core/validation, validateContainerCommon)."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from volcanoio.engine.admission.dnsnames import label_rule
from volcanoio.engine.admission.fielderrors import FieldError, duplicate, forbidden, invalid, required, unsupported
from volcanoio.engine.admission.podresources import resource_errors
from volcanoio.model.base import Manifest

_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_MESSAGE_POLICIES = ("File", "FallbackToLogsOnError")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_HANDLERS = frozenset({"exec", "httpGet", "tcpSocket", "grpc"})
_FIELDS = re.compile(
    r"metadata\.(name|namespace|uid|(annotations|labels)\['.+'\])"
    r"|spec\.(nodeName|serviceAccountName)|status\.(hostIP|hostIPs|podIP|podIPs)"
).fullmatch
"""What an environment variable may take from its pod."""
_ENV_NAME = re.compile(r"[ -<>-~]+").fullmatch
_PORT_NAME = re.compile(r"(?=.{1,15}$)(?=.*[a-z])[a-z0-9]([a-z0-9]|-(?!-))*(?<!-)").fullmatch
_PORT_RULE = "must be between 1 and 65535, inclusive"


@lru_cache(maxsize=8192)
def _is_env_name(name: str) -> bool:
    return _ENV_NAME(name) is not None


def container_errors(container: Manifest, path: str) -> list[FieldError]:
    """The broken rules of a container at `path`, apart from those about its siblings and volumes."""
    errors: list[FieldError] = []
    name = container.get("name")
    if not name:
        errors.append(required(f"{path}.name"))
    elif rule := label_rule(str(name)):
        errors.append(invalid(f"{path}.name", name, rule))
    image = container.get("image")
    if not image:
        errors.append(required(f"{path}.image"))
    elif image != str(image).strip():
        errors.append(invalid(f"{path}.image", image, "must not have leading or trailing whitespace"))
    policy = container.get("imagePullPolicy")
    if policy and policy not in _PULL_POLICIES:
        errors.append(unsupported(f"{path}.imagePullPolicy", policy, _PULL_POLICIES))
    policy = container.get("terminationMessagePolicy")
    if policy and policy not in _MESSAGE_POLICIES:
        errors.append(unsupported(f"{path}.terminationMessagePolicy", policy, _MESSAGE_POLICIES))
    for field in _PROBES:
        probe = container.get(field)
        if isinstance(probe, dict) and not probe.keys() & _HANDLERS:
            errors.append(required(f"{path}.{field}", "must specify a handler type"))
    for field, check in _LISTS.items():
        value = container.get(field)
        if value:
            if isinstance(value, list) and all(isinstance(one, dict) for one in value):
                errors += check(value, f"{path}.{field}")
            else:
                errors.append(invalid(f"{path}.{field}", value, "must be a list of objects"))
    for field in ("command", "args"):
        value = container.get(field)
        if value and not (isinstance(value, list) and all(isinstance(one, str) for one in value)):
            errors.append(invalid(f"{path}.{field}", value, "must be a list of strings"))
    if resources := container.get("resources"):
        errors += resource_errors(resources, f"{path}.resources")
    return errors


def env_errors(env: list[Manifest], path: str) -> list[FieldError]:
    """The broken rules of a container's environment."""
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
    """The broken rules of what a variable is taken from."""
    reference = source.get("fieldRef") if isinstance(source, dict) else None
    if not isinstance(reference, dict):
        return []
    field = reference.get("fieldPath")
    if not field:
        return [required(f"{path}.fieldRef.fieldPath")]
    if _FIELDS(str(field)):
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
        mount_path = one.get("mountPath")
        if not mount_path:
            errors.append(required(f"{where}.mountPath"))
        elif mount_path in paths:
            errors.append(invalid(f"{where}.mountPath", mount_path, "must be unique"))
        paths.add(mount_path)
        sub_path = one.get("subPath")
        if sub_path and (str(sub_path).startswith("/") or ".." in str(sub_path).split("/")):
            errors.append(forbidden(f"{where}.subPath", "must be a relative path without '..'"))
    return errors


def _is_port(number: Any) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and 1 <= number <= 65535


_LISTS = {"env": env_errors, "ports": _port_errors, "volumeMounts": _mount_errors}
