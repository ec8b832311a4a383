"""Webhook configurations: defaults (Kubernetes: pkg/apis/admissionregistration/v1/defaults.go) and rules."""

from __future__ import annotations

from typing import Final

from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.kinds.strategy import Strategy
from volcanoio.localcluster.apiserver.webhooks.configuration import MUTATING, VALIDATING
from volcanoio.localcluster.apiserver.webhooks.rules import configuration_errors
from volcanoio.model.base import Manifest

_DEFAULTS: Final[dict[str, object]] = {"failurePolicy": "Fail", "matchPolicy": "Equivalent", "timeoutSeconds": 10}


def _default(configuration: Manifest, core: Core) -> None:
    del core
    for hook in configuration.get("webhooks") or ():
        for field, value in _DEFAULTS.items():
            hook.setdefault(field, value)
        for selector in ("namespaceSelector", "objectSelector"):
            hook.setdefault(selector, {})
        for rule in hook.get("rules") or ():
            rule.setdefault("scope", "*")
        service = (hook.get("clientConfig") or {}).get("service")
        if isinstance(service, dict):
            service.setdefault("port", 443)


def _default_mutating(configuration: Manifest, core: Core) -> None:
    _default(configuration, core)
    for hook in configuration.get("webhooks") or ():
        hook.setdefault("reinvocationPolicy", "Never")


WEBHOOKS: Final = {
    MUTATING: Strategy(default=_default_mutating, validate=configuration_errors),
    VALIDATING: Strategy(default=_default, validate=configuration_errors),
}
