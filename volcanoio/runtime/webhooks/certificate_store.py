"""Where the certificates of the webhooks are kept: a Secret that all replicas share, or files.

`SecretCertificates` creates the Secret and renews it in time; a lost race is a 409, after which the winner's
certificates are used. `FileCertificates` reads files that others renew.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple, Protocol

import anyio.to_thread
import structlog

from volcanoio.framework.probe import Probe
from volcanoio.kube.client import Client
from volcanoio.kube.clock import Clock
from volcanoio.kube.errors import AlreadyExists, ApiError, Conflict, NotFound
from volcanoio.kube.requests import PatchOptions
from volcanoio.kube.transport import TransportError
from volcanoio.model import kinds
from volcanoio.model.base import Manifest
from volcanoio.runtime.webhooks.certificates import CertificateError, Certificates, problem_of, renewed
from volcanoio.runtime.webhooks.paths import MANAGED_BY, MANAGER

EXPIRES_SOON = timedelta(days=30)
"""Time before the end of a certificate of others from which the log warns."""
EXPIRY = "volcanoio_admission_certificate_expiry_timestamp_seconds"
_CHECK_SECONDS, _FILE_SECONDS, _RETRY_SECONDS = 60.0, 5.0, 2.0
_CERTIFICATE, _KEY, _BUNDLE, _AUTHORITY_KEY = "tls.crt", "tls.key", "ca.crt", "ca.key"
_LOG = structlog.get_logger(__name__)


class SecretName(NamedTuple):
    """A Secret by namespace and name."""

    namespace: str
    name: str

    def __str__(self) -> str:
        """Return `namespace/name`."""
        return f"{self.namespace}/{self.name}"


class CertificateSource(Protocol):
    """Where the certificates are from."""

    async def load(self) -> Certificates:
        """Return the certificates to start with; retries until they can be read. Raises CertificateError."""
        ...

    async def run(self, adopt: Callable[[Certificates], Awaitable[None]]) -> None:
        """Pass renewed certificates to `adopt` until cancelled."""
        ...


class SecretCertificates:
    """Certificates in a Secret, which is created if it is missing and kept valid for `names`."""

    def __init__(
        self, client: Client, secret: SecretName, names: tuple[str, ...], *, clock: Clock, probe: Probe
    ) -> None:
        self._client, self._secret, self._names = client, secret, names
        self._clock, self._probe = clock, probe
        self._warned = False

    async def load(self) -> Certificates:
        """Return the certificates to start with; retries until the API server answers."""
        while True:
            try:
                return await self._renew()
            except (ApiError, TransportError) as error:
                _LOG.warning("the certificates' Secret cannot be used", secret=str(self._secret), error=str(error))
                await self._clock.idle(_RETRY_SECONDS)

    async def run(self, adopt: Callable[[Certificates], Awaitable[None]]) -> None:
        """Read the Secret once a minute, renew it when due, and pass what is in it to `adopt`."""
        while True:
            await self._clock.idle(_CHECK_SECONDS)
            try:
                await adopt(await self._renew())
            except (ApiError, TransportError, CertificateError) as error:
                _LOG.warning("the certificates' Secret cannot be used", secret=str(self._secret), error=str(error))

    async def _renew(self) -> Certificates:
        """Return the certificates that all replicas use now. Raises ApiError and TransportError."""
        while True:
            now = datetime.fromtimestamp(self._clock.now(), UTC)
            stored = await self._read()
            held = None if stored is None else _decoded(stored)
            fresh = renewed(held, self._names, now)
            try:
                if fresh is not None:
                    problem = "no certificates" if held is None else problem_of(held, self._names, now)
                    await self._write(stored, fresh, problem or "due")
                    held = fresh
            except (AlreadyExists, Conflict):
                continue  # another replica was faster: its certificates are the ones to use
            assert held is not None
            self._report(held, now)
            return held

    async def _read(self) -> Manifest | None:
        try:
            return await self._client.get_raw(kinds.SECRET, self._secret.name, self._secret.namespace)
        except NotFound:
            return None

    async def _write(self, stored: Manifest | None, fresh: Certificates, reason: str) -> None:
        data = {
            _CERTIFICATE: fresh.certificate, _KEY: fresh.key, _BUNDLE: fresh.bundle, _AUTHORITY_KEY: fresh.authority_key
        }  # fmt: skip
        content: Manifest = {"data": {name: base64.b64encode(pem).decode() for name, pem in data.items()}}
        if stored is None:
            _LOG.info("the certificates' Secret is created", secret=str(self._secret))
            metadata = {**self._secret._asdict(), "labels": {MANAGED_BY: MANAGER}}
            await self._client.create(kinds.SECRET, {"metadata": metadata, "type": "Opaque", **content})
            return
        _LOG.info("the certificates in the Secret are renewed", secret=str(self._secret), reason=reason)
        options = PatchOptions(resource_version=str(stored["metadata"].get("resourceVersion", "")))
        await self._client.patch(kinds.SECRET, self._secret.name, content, self._secret.namespace, options)

    def _report(self, held: Certificates, now: datetime) -> None:
        expires = held.expires
        self._probe.gauge(EXPIRY, expires.timestamp())
        is_soon = not held.authority_key and expires - now < EXPIRES_SOON
        if is_soon and not self._warned:
            advice = "renew it with the program that made it, or delete the Secret"
            _LOG.warning(f"the certificate expires soon; {advice}", secret=str(self._secret), expires=str(expires))
        self._warned = is_soon


def _decoded(secret: Manifest) -> Certificates | None:
    """Return the certificates of a Secret, None if a field is missing or not base64."""
    data: Mapping[str, str] = secret.get("data") or {}
    try:
        certificate, key, bundle = (_bytes(data[name]) for name in (_CERTIFICATE, _KEY, _BUNDLE))
        return Certificates(certificate, key, bundle, _bytes(data.get(_AUTHORITY_KEY) or ""))
    except (KeyError, binascii.Error):
        return None


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


class FileCertificates:
    """Certificates in files, read again when they change; a change that cannot be used is logged.

    Raises CertificateError at once for files that cannot be used.
    """

    def __init__(self, certificate: Path, key: Path, bundle: Path, *, clock: Clock, probe: Probe) -> None:
        self._paths = certificate, key, bundle
        self._clock, self._probe = clock, probe
        self._adopted = self._checked(self._read())

    async def load(self) -> Certificates:
        """Return what was read at first."""
        return self._adopted

    async def run(self, adopt: Callable[[Certificates], Awaitable[None]]) -> None:
        """Read the files every few seconds, and pass changed ones to `adopt` if they belong together."""
        refused: Certificates | None = None
        while True:
            await self._clock.idle(_FILE_SECONDS)
            try:
                read = await anyio.to_thread.run_sync(self._read)
                if read not in (self._adopted, refused):
                    refused = read  # until it is adopted
                    await adopt(self._checked(read))
                    self._adopted = read
            except CertificateError as error:
                _LOG.error("changed certificates cannot be used; the last ones stay", error=str(error))

    def _checked(self, read: Certificates) -> Certificates:
        if problem := problem_of(read, (), datetime.fromtimestamp(self._clock.now(), UTC)):
            raise CertificateError(f"--tls-cert-file {self._paths[0]}: {problem}; give the files of one certificate")
        self._probe.gauge(EXPIRY, read.expires.timestamp())
        return read

    def _read(self) -> Certificates:
        return Certificates(*map(_file, self._paths))


def _file(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CertificateError(f"{path}: {error.strerror}; give a file that can be read") from None
