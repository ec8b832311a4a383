"""Kinds with a few defaults and no behaviour: services, secrets, volumes, claims."""

from __future__ import annotations

import base64

from volcanoio.engine.admission.fielderrors import FieldError, required
from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.kinds.strategy import Strategy
from volcanoio.model.base import Manifest


def _spec(obj: Manifest) -> Manifest:
    spec = obj.get("spec")
    if not isinstance(spec, dict):
        spec = obj["spec"] = {}
    return spec


def _default_service(service: Manifest, core: Core) -> None:
    del core
    spec = _spec(service)
    spec.setdefault("type", "ClusterIP")
    spec.setdefault("sessionAffinity", "None")
    for port in spec.get("ports") or ():
        port.setdefault("protocol", "TCP")
        port.setdefault("targetPort", port.get("port"))


def _create_service(service: Manifest, core: Core) -> None:
    del core
    service["status"] = {"loadBalancer": {}}


def _default_secret(secret: Manifest, core: Core) -> None:
    """`stringData` is written into `data`, base64-encoded."""
    del core
    secret.setdefault("type", "Opaque")
    texts = secret.pop("stringData", None)
    if isinstance(texts, dict) and texts:
        encoded = {key: base64.b64encode(str(text).encode()).decode() for key, text in texts.items()}
        secret["data"] = {**(secret.get("data") or {}), **encoded}


def _default_claim(claim: Manifest, core: Core) -> None:
    del core
    _spec(claim).setdefault("volumeMode", "Filesystem")


def _create_pending(obj: Manifest, core: Core) -> None:
    del core
    obj["status"] = {"phase": "Pending"}


def _validate_claim(claim: Manifest) -> list[FieldError]:
    spec = claim["spec"]
    found: list[FieldError] = []
    if not spec.get("accessModes"):
        found.append(required("spec.accessModes", "at least 1 access mode is required"))
    if not ((spec.get("resources") or {}).get("requests") or {}).get("storage"):
        found.append(required("spec.resources[storage]"))
    return found


SERVICES = Strategy(create=_create_service, default=_default_service)
SECRETS = Strategy(default=_default_secret)
VOLUMES = Strategy(create=_create_pending)
CLAIMS = Strategy(create=_create_pending, default=_default_claim, validate=_validate_claim)
