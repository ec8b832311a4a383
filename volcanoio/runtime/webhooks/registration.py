"""`Registration`: webhook configurations of the API server, created where they are missing and kept in step.

A configuration that this program created, or that an installer left empty for it, is brought up to date as a whole when
the program starts or its settings change. In others, such as those of Volcano's chart, only `caBundle` and
`matchConditions` are set. Later a configuration is changed only if API servers could not verify our certificate with
it, so that replicas with different settings or versions never undo each other's writes in turn.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any

import anyio
import structlog

from volcanoio.engine.admission.request import AdmissionSettings
from volcanoio.framework.effects import PatchType
from volcanoio.framework.probe import Probe
from volcanoio.kube.client import Client
from volcanoio.kube.clock import Clock
from volcanoio.kube.errors import AlreadyExists, ApiError, NotFound
from volcanoio.kube.informer import InformerSet
from volcanoio.kube.requests import PatchOptions
from volcanoio.kube.transport import Transport, TransportError
from volcanoio.model.base import Manifest
from volcanoio.runtime.webhooks.certificates import Certificates, is_trusted
from volcanoio.runtime.webhooks.paths import (
    MANAGED_WEBHOOKS,
    MUTATING,
    VALIDATING,
    Target,
    WebhookConfiguration,
    WebhookPath,
    configuration,
)

ABSENT_SECONDS = 120.0
"""Seconds after which a configuration that was deleted is created again: an uninstallation ends this program sooner."""
_CHECK_SECONDS, _RETRY_SECONDS = 60.0, 2.0
_LOG = structlog.get_logger(__name__)


class Registration:
    """Keeps the configurations of `target`; `run` until cancelled, and call `change` at first and after each change."""

    def __init__(self, transport: Transport, target: Target, *, clock: Clock, probe: Probe) -> None:
        self._client = Client(transport)
        self._target = target
        self._clock = clock
        self._informers = InformerSet(transport, lambda _: self._wake.set(), clock=clock, probe=probe)
        self._configurations = {kind: self._informers.informer(kind) for kind in (MUTATING, VALIDATING)}
        self._wake = anyio.Event()
        self._held: Certificates | None = None
        self._settings = AdmissionSettings()
        self._outdated: set[str] = set()
        """Paths whose configurations have to be compared as a whole."""
        self._absent: dict[str, float] = {}
        """When each missing configuration was first missed, by path."""
        self._registered = anyio.Event()

    def change(self, held: Certificates, settings: AdmissionSettings) -> None:
        """Register these certificates, and conditions for these settings."""
        self._held, self._settings = held, settings
        self._outdated = {row.path for row in self._target.rows}
        self._wake.set()

    async def registered(self) -> None:
        """Return once every configuration exists and has our authority."""
        await self._registered.wait()

    async def run(self) -> None:
        """Watch and write until cancelled; failures are logged and retried."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._informers.run)
            tasks.start_soon(self._tick)
            await self._informers.synced()
            while True:
                self._wake = anyio.Event()
                if await self._reconcile():
                    await self._wake.wait()
                else:
                    await self._clock.idle(_RETRY_SECONDS)

    async def _tick(self) -> None:
        while True:
            await self._clock.idle(_CHECK_SECONDS)
            self._wake.set()

    async def _reconcile(self) -> bool:
        """Reconcile all configurations; return whether no request failed."""
        done = failed = 0
        for row in self._target.rows:
            try:
                is_done = await self._write(row)
            except (ApiError, TransportError) as error:
                name = self._target.configuration_name(row.path)
                _LOG.warning("a webhook configuration cannot be written", name=name, error=str(error))
                failed += 1
            else:
                done += is_done
                if is_done:
                    self._outdated.discard(row.path)
        if done == len(self._target.rows):
            self._registered.set()
        return not failed

    async def _write(self, row: WebhookPath) -> bool:
        """Create or update one configuration; return whether it is as it should be."""
        held, name = self._held, self._target.configuration_name(row.path)
        if held is None or not self._configurations[row.kind].is_synced:
            return False
        wanted = configuration(row, self._target, self._settings, held.bundle)
        stored = self._configurations[row.kind].objects.get(name)
        if not isinstance(stored, WebhookConfiguration):
            return await self._create(row, wanted)
        self._absent.pop(row.path, None)
        if row.path not in self._outdated and stored.webhooks and _are_trusting(stored, held):
            return True
        content, options = _update(stored, wanted)
        if not _contains(list(stored.webhooks), content["webhooks"]):
            try:
                await self._client.patch(row.kind, name, content, options=options)
            except NotFound:
                return False
            _LOG.info("a webhook configuration was updated", name=name)
        return True

    async def _create(self, row: WebhookPath, wanted: Manifest) -> bool:
        """Create a configuration at the start; one that was deleted later only after `ABSENT_SECONDS`."""
        now = self._clock.monotonic()
        since = self._absent.setdefault(row.path, now)
        was_deleted = self._registered.is_set() and row.path not in self._outdated
        if not self._target.creates or (was_deleted and now - since < ABSENT_SECONDS):
            return False
        try:
            await self._client.create(row.kind, wanted)
        except AlreadyExists:
            return False  # another replica was faster; the watch will show its configuration
        _LOG.info("a webhook configuration was created", name=wanted["metadata"]["name"])
        return True


def _update(stored: WebhookConfiguration, wanted: Manifest) -> tuple[Manifest, PatchOptions]:
    """Return the patch of a stored configuration: all of one that is ours, else the fields that only we know."""
    if not stored.webhooks or MANAGED_WEBHOOKS in stored.metadata.annotations:
        annotations = wanted["metadata"]["annotations"]
        return {"metadata": {"annotations": annotations}, "webhooks": wanted["webhooks"]}, PatchOptions()
    (webhook,) = wanted["webhooks"]
    fields = {
        "clientConfig": {"caBundle": webhook["clientConfig"]["caBundle"]},
        "matchConditions": webhook["matchConditions"],
    }
    content = {"webhooks": [{"name": each.get("name"), **fields} for each in stored.webhooks]}
    return content, PatchOptions(type=PatchType.STRATEGIC)


def _are_trusting(stored: WebhookConfiguration, held: Certificates) -> bool:
    """Return whether API servers can verify our certificate with the bundle of each webhook."""
    for webhook in stored.webhooks:
        text = (webhook.get("clientConfig") or {}).get("caBundle") or ""
        try:
            if not is_trusted(held.certificate, base64.b64decode(text, validate=True)):
                return False
        except binascii.Error:
            return False
    return True


def _contains(stored: Any, wanted: Any) -> bool:
    """Return whether a stored value has all wanted fields; the API server adds defaults."""
    if isinstance(stored, dict) and isinstance(wanted, dict):
        return all(key in stored and _contains(stored[key], value) for key, value in wanted.items())
    if isinstance(stored, list) and isinstance(wanted, list):
        return len(stored) == len(wanted) and all(map(_contains, stored, wanted))
    return bool(stored == wanted)
