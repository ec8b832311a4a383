"""The webhook manager's process: admission for any cluster, with its certificates and webhook configurations."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from pathlib import Path

import anyio
from msgspec.structs import replace

from volcanoio.engine.admission.request import AdmissionSettings
from volcanoio.engine.admission.resource_groups import ResourceGroup, parse_admission_conf
from volcanoio.framework.probe import NoProbe, Probe
from volcanoio.kube.client import Client
from volcanoio.kube.clock import Clock, WallClock
from volcanoio.kube.informer import InformerSet
from volcanoio.kube.transport import Transport
from volcanoio.model import kinds
from volcanoio.runtime.loading.mounted_files import MountError
from volcanoio.runtime.loading.reloading import ConfigurationSource, WatchedConfiguration
from volcanoio.runtime.metric_catalogue import Component, begin_at_zero
from volcanoio.runtime.webhooks.certificate_store import (
    CertificateSource,
    FileCertificates,
    SecretCertificates,
    SecretName,
)
from volcanoio.runtime.webhooks.certificates import Certificates, load_into, server_context
from volcanoio.runtime.webhooks.paths import Target
from volcanoio.runtime.webhooks.queue_rights import QueueRights
from volcanoio.runtime.webhooks.registration import Registration
from volcanoio.runtime.webhooks.reviewer import AdmissionReviewer, ResourceGroupReloader
from volcanoio.runtime.webhooks.server import WebhookServer

CONTROLLERS_ACCOUNT = "volcano-controllers"
"""Service account of the controllers, in the namespace of the webhooks; see `AdmissionSettings.trusted_users`."""


@dataclass(frozen=True, kw_only=True)
class WebhookSettings:
    """Settings of the webhook manager's process.

    - `admission`: rules; `trusted_users` () is the controllers' service account in the target's namespace
    - `target`: the webhooks that are served (`parse_paths` reads `--enabled-admission`), how API servers connect
      (`--webhook-namespace`, `--webhook-service-name`, `--webhook-url`), whether missing configurations are created
    - `listen_address`, `port`: where to listen; "" is all addresses, port 0 any free one
    - `certificate_files`: `--tls-cert-file`, `--tls-private-key-file` and `--ca-cert-file`; None: the certificates are
      made, renewed and kept in the Secret `secret` of the target's namespace
    - `admission_conf`: the file of `--admission-conf` with resource groups, reloaded when it changes
    - `graceful_shutdown_time`: seconds for reviews in progress at the end
    - `shutdown_delay`: seconds for which it still answers when it is to end: API servers call it a little longer
    """

    admission: AdmissionSettings = field(default_factory=AdmissionSettings)
    target: Target = field(default_factory=Target)
    listen_address: str = ""
    port: int = 8443
    certificate_files: tuple[Path, Path, Path] | None = None
    secret: str = "volcano-admission-secret"
    admission_conf: Path | None = None
    graceful_shutdown_time: float = 30.0
    shutdown_delay: float = 0.0


class WebhookManager:
    """Admission over HTTPS. `run` until cancelled; API servers may call once `synced` returns.

    Raises AdmissionConfError, MountError and CertificateError at once for files that cannot be used.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        settings: WebhookSettings,
        clock: Clock | None = None,
        probe: Probe | None = None,
    ) -> None:
        self._settings, self._clock, self._probe = settings, clock or WallClock(), probe or NoProbe()
        begin_at_zero(self._probe, Component.WEBHOOKS)
        self._informers = InformerSet(transport, lambda _: None, clock=self._clock, probe=self._probe)
        self._queues = self._informers.informer(kinds.QUEUE)
        source = ConfigurationSource(path=settings.admission_conf, default="")
        self._watched = WatchedConfiguration(source, source.look())
        if self._watched.in_force.text is None:
            raise MountError(f"--admission-conf: {self._watched.in_force.unreadable}")
        groups = parse_admission_conf(self._watched.in_force.text)
        self._reviewer = AdmissionReviewer(
            transport,
            replace(_with_trusted_users(settings), resource_groups=groups),
            queues=self._queues,
            rights=QueueRights(transport, self._clock),
        )
        rows, grace = settings.target.rows, settings.graceful_shutdown_time
        self._server = WebhookServer(self._reviewer, rows, grace=grace, probe=self._probe)
        self._registration = Registration(transport, settings.target, clock=self._clock, probe=self._probe)
        self._certificates = self._source(transport)
        self._held: Certificates | None = None
        self._context: ssl.SSLContext | None = None
        self._listening = anyio.Event()
        self.port = 0
        """The port that is listened on, once `synced` returned."""

    def _source(self, transport: Transport) -> CertificateSource:
        settings, clock, probe = self._settings, self._clock, self._probe
        if settings.certificate_files is not None:
            return FileCertificates(*settings.certificate_files, clock=clock, probe=probe)
        secret = SecretName(settings.target.namespace, settings.secret)
        names = settings.target.server_names()
        return SecretCertificates(Client(transport), secret, names, clock=clock, probe=probe)

    async def run(self) -> None:
        """Serve until cancelled; reviews in progress are answered first. Raises OSError if the port is taken."""
        held = await self._certificates.load()
        self._context = server_context(held)
        try:
            self.port = await self._server.start(self._settings.listen_address, self._settings.port, self._context)
            self._listening.set()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._informers.run)
                tasks.start_soon(self._registration.run)
                tasks.start_soon(self._certificates.run, self._adopt)
                tasks.start_soon(self._reloader().run)
                await self._adopt(held)
        finally:
            with anyio.CancelScope(shield=True):
                await self._server.stop()

    async def synced(self) -> None:
        """Return once the server listens and has listed the queues."""
        await self._listening.wait()
        await self._queues.answered()

    async def ready(self) -> None:
        """Return once API servers call the webhooks: synced, and every webhook configuration has our authority."""
        await self.synced()
        await self._registration.registered()

    async def drain(self) -> None:
        """Answer for `shutdown_delay` more, then accept no connections, and return once all reviews are answered.

        The Service loses its endpoint when the pod is deleted; nodes and API servers learn of that a moment later.
        """
        self._server.retire()
        await self._clock.sleep(self._settings.shutdown_delay)
        await self._server.stop()

    def busy_for(self) -> float:
        """Return 0: no step of this process takes long."""
        return 0.0

    def _reloader(self) -> ResourceGroupReloader:
        return ResourceGroupReloader(self._watched, self._regroup, clock=self._clock, probe=self._probe)

    def _regroup(self, groups: tuple[ResourceGroup, ...]) -> None:
        self._reviewer.settings = replace(self._reviewer.settings, resource_groups=groups)
        if self._held is not None:
            self._registration.change(self._held, self._reviewer.settings)

    async def _adopt(self, held: Certificates) -> None:
        """Serve with these certificates and register their authorities, if they are new. Raises CertificateError."""
        if held == self._held or self._context is None:
            return
        load_into(self._context, held)
        self._held = held
        self._registration.change(held, self._reviewer.settings)


def _with_trusted_users(settings: WebhookSettings) -> AdmissionSettings:
    release, suffix, _ = settings.target.service.rpartition("-admission-service")
    name = f"{release}-controllers" if suffix else CONTROLLERS_ACCOUNT  # as the chart names both
    account = f"system:serviceaccount:{settings.target.namespace}:{name}"
    return replace(settings.admission, trusted_users=settings.admission.trusted_users or (account,))
