"""Stored webhook configurations, decoded once per change, in the order of their calls."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec
import structlog

from volcanoio.localcluster.apiserver.apimachinery.objects import Stored
from volcanoio.localcluster.apiserver.storage.store import Store

MUTATING: Final = "mutatingwebhookconfigurations.admissionregistration.k8s.io"
VALIDATING: Final = "validatingwebhookconfigurations.admissionregistration.k8s.io"

_log = structlog.get_logger(__name__)

Selector = dict[str, Any]


class Rule(msgspec.Struct, frozen=True, rename="camel"):
    """Operations and resources of a rule.

    `resources` holds `pods`, `pods/status`, `pods/*`, `*` or `*/*`.
    """

    operations: tuple[str, ...] = ()
    api_groups: tuple[str, ...] = msgspec.field(default=(), name="apiGroups")
    api_versions: tuple[str, ...] = msgspec.field(default=(), name="apiVersions")
    resources: tuple[str, ...] = ()
    scope: str = "*"


class ServiceReference(msgspec.Struct, frozen=True):
    """The Service of a webhook."""

    name: str
    namespace: str
    path: str = ""
    port: int = 443


class ClientConfig(msgspec.Struct, frozen=True, rename="camel"):
    """Address of the webhook; `ca_bundle` is PEM."""

    url: str = ""
    service: ServiceReference | None = None
    ca_bundle: bytes = msgspec.field(default=b"", name="caBundle")


class MatchCondition(msgspec.Struct, frozen=True):
    """A CEL expression that must be true before the webhook is called."""

    name: str
    expression: str


class Hook(msgspec.Struct, frozen=True, rename="camel"):
    """One webhook of a configuration; defaults were set when it was stored."""

    name: str
    client_config: ClientConfig
    rules: tuple[Rule, ...] = ()
    failure_policy: str = "Fail"
    match_policy: str = "Equivalent"
    namespace_selector: Selector = {}
    object_selector: Selector = {}
    side_effects: str = ""
    timeout_seconds: int = 10
    admission_review_versions: tuple[str, ...] = ()
    reinvocation_policy: str = "Never"
    match_conditions: tuple[MatchCondition, ...] = ()
    configuration: str = ""

    @property
    def uid(self) -> tuple[str, str]:
        """Identity of the webhook among those of its type."""
        return self.configuration, self.name

    @property
    def ignores_failures(self) -> bool:
        """Whether a failed call is ignored."""
        return self.failure_policy == "Ignore"


class _Configuration(msgspec.Struct):
    webhooks: tuple[Hook, ...] = ()


_decode = msgspec.json.Decoder(_Configuration).decode


def hooks_of(store: Store, resource: str) -> tuple[Hook, ...]:
    """Return all webhooks of one type, sorted by the name of their configuration."""
    found: list[Hook] = []
    for _, stored in sorted(store.collection(resource).objects.items()):
        found += _hooks(stored)
    return tuple(found)


def _hooks(stored: Stored) -> Iterable[Hook]:
    try:
        found = _decode(stored.data).webhooks
    except msgspec.ValidationError as error:  # stored by a version without validation; it must not stop all writes
        _log.warning("webhook_configuration_unreadable", configuration=stored.name, error=str(error))
        return
    for hook in found:
        yield msgspec.structs.replace(hook, configuration=stored.name)
