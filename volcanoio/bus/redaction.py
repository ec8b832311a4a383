"""What the journal never holds: environments of containers, data of Secrets, private keys, and copies of these."""

import re
from collections.abc import Callable
from typing import Any, TypeAlias

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""kubectl's annotation: the whole manifest as somebody applied it, environment and Secret data included."""

_CONTAINERS = frozenset({"containers", "initContainers", "ephemeralContainers"})
_ENVIRONMENT = frozenset({"env", "envFrom"})
_SECRET_DATA = frozenset({"data", "stringData"})
_ENVIRONMENT_PATH = re.compile(r"ontainers/[^/]+/env(From)?(/|$)")
_KEY_FLAG = re.compile(r"--?[a-z-]*private-key=")
_KEY_TEXT = "PRIVATE KEY-----"  # how every PEM text with a private key begins and ends
REDACTED = "redacted"
"""Stands where a text was left out that something has to be: the value of a flag."""
_CONTAINER_PATH = re.compile(r"ontainers/[^/]+$")
SECRETS = "secrets"


Leaf: TypeAlias = Callable[[Any], Any]


def _identity(value: Any) -> Any:
    return value


def redact(content: Any, leaf: Leaf = _identity) -> Any:
    """Decoded JSON (a manifest, a patch, or anything that holds some) without what must not be kept.

    Keys elsewhere that happen to be called `env` stay, such as the job plugin of that name. `leaf` is given what is
    neither a dict nor a list nor a text.
    """
    if isinstance(content, dict):
        if "op" in content and isinstance(content.get("path"), str):
            return _redact_operation(content)
        secret = content.get("kind") == "Secret"
        return {
            key: _redact_containers(value, leaf) if key in _CONTAINERS else redact(value, leaf)
            for key, value in content.items()
            if key != LAST_APPLIED and not (secret and key in _SECRET_DATA)
        }
    if isinstance(content, list | tuple):
        return [redact(item, leaf) for item in content]
    return _redact_text(content) if isinstance(content, str) else leaf(content)


def _redact_text(content: str) -> str:
    """Return a text without a private key (the arguments of the job plugin `ssh` may hold one)."""
    if content.startswith("-") and (flag := _KEY_FLAG.match(content)):
        return flag[0] + REDACTED
    return REDACTED if _KEY_TEXT in content else content


def redact_secret(content: Any) -> Any:
    """Redact a manifest or patch of a Secret; it need not name its kind."""
    if not isinstance(content, dict):  # a JSON patch: its values may be the data
        return []
    return redact({key: value for key, value in content.items() if key not in _SECRET_DATA})


def _redact_containers(content: Any, leaf: Leaf = _identity) -> Any:
    if not isinstance(content, list | tuple):
        return redact(content, leaf)
    return [_redact_container(item, leaf) for item in content]


def _redact_container(content: Any, leaf: Leaf = _identity) -> Any:
    if not isinstance(content, dict):
        return redact(content, leaf)
    return redact({key: value for key, value in content.items() if key not in _ENVIRONMENT}, leaf)


def _redact_operation(operation: dict[str, Any]) -> dict[str, Any]:
    """Redact one operation of a JSON patch (RFC 6902)."""
    path = operation["path"]
    if _ENVIRONMENT_PATH.search(path) or LAST_APPLIED.replace("/", "~1") in path:
        return {key: value for key, value in operation.items() if key != "value"}
    if "value" not in operation:
        return operation
    if _CONTAINER_PATH.search(path):
        return {**operation, "value": _redact_container(operation["value"])}
    if path.rsplit("/", 1)[-1] in _CONTAINERS:
        return {**operation, "value": _redact_containers(operation["value"])}
    return {**operation, "value": redact(operation["value"])}
