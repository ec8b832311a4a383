"""RuntimeClasses: their rules (Kubernetes: pkg/apis/node/validation)."""

from __future__ import annotations

from typing import Final

from volcanoio.engine.admission.dnsnames import label_errors, label_rule
from volcanoio.engine.admission.fielderrors import FieldError, invalid, required
from volcanoio.engine.admission.placementrules import toleration_errors
from volcanoio.engine.admission.podresources import resource_errors
from volcanoio.localcluster.apiserver.kinds.rules import immutable
from volcanoio.localcluster.apiserver.kinds.strategy import Strategy
from volcanoio.model.base import Manifest


def _validate(one: Manifest) -> list[FieldError]:
    handler, scheduling = one.get("handler"), one.get("scheduling") or {}
    found: list[FieldError] = []
    if not handler:
        found.append(required("handler"))
    elif rule := label_rule(handler):
        found.append(invalid("handler", handler, rule))
    found += resource_errors({"limits": (one.get("overhead") or {}).get("podFixed") or {}}, "overhead")
    found += label_errors(scheduling.get("nodeSelector"), "scheduling.nodeSelector")
    return found + toleration_errors(scheduling.get("tolerations") or (), "scheduling.tolerations")


RUNTIME_CLASSES: Final = Strategy(validate=_validate, validate_update=immutable("handler"))
