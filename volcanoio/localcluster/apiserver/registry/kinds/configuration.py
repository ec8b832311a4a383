"""ConfigMaps and Secrets: keys, size limits, and immutability.

Rules: Kubernetes `pkg/apis/core/validation` (ValidateConfigMap, ValidateSecret and their updates).
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any, Final

from volcanoio.localcluster.apiserver.apimachinery.errors import UndecodableError
from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.registry.kinds.strategy import Strategy
from volcanoio.model.base import Manifest
from volcanoio.model.validation.field_errors import FieldError, forbidden, invalid, required, too_long

MAX_BYTES: Final = 2**20
"""1 MiB: limit of all values of one object together."""
_LONGEST_KEY: Final = 253
_KEY = re.compile(r"[-._a-zA-Z0-9]+").fullmatch
_KEY_RULE: Final = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' "
    "(e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
_IMMUTABLE: Final = "field is immutable when `immutable` is set"
_ACCOUNT: Final = "kubernetes.io/service-account.name"
_NEEDED: Final[dict[str, tuple[str, ...]]] = {
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
}
"""Required keys of Secrets, by type."""
_LOGIN: Final = ("username", "password")
"""Keys of which a basic-auth Secret must have one."""


def _key_errors(field: str, data: Manifest) -> list[FieldError]:
    return [invalid(f"{field}[{key}]", key, rule) for key in sorted(data) if (rule := _key_rule(key))]


def _key_rule(key: str) -> str:
    if len(key) > _LONGEST_KEY:
        return f"must be no more than {_LONGEST_KEY} characters"
    if not _KEY(key):
        return _KEY_RULE
    if key in {".", ".."}:
        return f"must not be '{key}'"
    return "must not start with '..'" if key.startswith("..") else ""


def _validate_config_map(obj: Manifest) -> list[FieldError]:
    texts, binary = obj.get("data") or {}, obj.get("binaryData") or {}
    found = _key_errors("data", texts) + _key_errors("binaryData", binary)
    found += [
        invalid(f"data[{key}]", key, "duplicate of key present in binaryData") for key in sorted(texts.keys() & binary)
    ]
    size = sum(len(str(text).encode()) for text in texts.values()) + sum(map(_decoded, binary.values()))
    if size > MAX_BYTES:
        found.append(too_long("[]", MAX_BYTES))
    return found


def _validate_secret(obj: Manifest) -> list[FieldError]:
    data = obj.get("data") or {}
    found = _key_errors("data", data)
    if sum(map(_decoded, data.values())) > MAX_BYTES:
        found.append(too_long("data", MAX_BYTES))
    kind = obj.get("type")
    found += [required(f"data[{key}]") for key in _NEEDED.get(str(kind), ()) if key not in data]
    if kind == "kubernetes.io/basic-auth" and not data.keys() & set(_LOGIN):
        found += [required(f"data[{key}]") for key in _LOGIN]
    if kind == "kubernetes.io/service-account-token" and not (obj["metadata"].get("annotations") or {}).get(_ACCOUNT):
        found.append(required(f"metadata.annotations[{_ACCOUNT}]"))
    return found


def _decoded(text: Any) -> int:
    """Return the number of bytes that a base64 text encodes."""
    return len(str(text)) * 3 // 4 - str(text)[-2:].count("=")


def _kept(new: Manifest, old: Manifest, *fields: str) -> list[FieldError]:
    """Return errors of changes of an immutable object."""
    if not old.get("immutable"):
        return []
    found = [] if new.get("immutable") else [forbidden("immutable", _IMMUTABLE)]
    return found + [
        forbidden(field, _IMMUTABLE) for field in fields if (new.get(field) or {}) != (old.get(field) or {})
    ]


def _validate_config_map_update(new: Manifest, old: Manifest) -> list[FieldError]:
    return _kept(new, old, "data", "binaryData")


def _validate_secret_update(new: Manifest, old: Manifest) -> list[FieldError]:
    found = [] if new.get("type") == old.get("type") else [invalid("type", new.get("type"), "field is immutable")]
    return found + _kept(new, old, "data")


def _check_base64(core: Core, plural: str, data: Any) -> None:
    """Check that values are base64; raises ApiError 400, as Go's decoder does."""
    for text in data.values() if isinstance(data, dict) else ():
        try:
            base64.b64decode(text, validate=True)
        except (binascii.Error, TypeError, ValueError) as error:
            raise UndecodableError(core.registry.builtin(plural), f"illegal base64 data: {error}") from None


def _default_config_map(config_map: Manifest, core: Core) -> None:
    _check_base64(core, "configmaps", config_map.get("binaryData"))


def _default_secret(secret: Manifest, core: Core) -> None:
    """Move `stringData` into `data`, base64-encoded."""
    _check_base64(core, "secrets", secret.get("data"))
    secret.setdefault("type", "Opaque")
    texts = secret.pop("stringData", None)
    if isinstance(texts, dict) and texts:
        encoded = {key: base64.b64encode(str(text).encode()).decode() for key, text in texts.items()}
        secret["data"] = {**(secret.get("data") or {}), **encoded}


CONFIG_MAPS = Strategy(
    default=_default_config_map, validate=_validate_config_map, validate_update=_validate_config_map_update
)
SECRETS = Strategy(default=_default_secret, validate=_validate_secret, validate_update=_validate_secret_update)
