"""Sources of HyperNodes besides node labels: the configuration, and the ports that a UFM server lists.

Both are published as objects of local kinds (`model.nodes`). The ports are requested at the interval of the source, at
once after a change of the configuration, and sooner after a failure.
"""

from __future__ import annotations

import base64
import binascii
import ssl
from collections.abc import Callable
from typing import Any

import aiohttp
import anyio
import anyio.to_thread
import structlog

from volcanoio.engine.hypernodes.fabric import PORTS_PATH, Links, PortsError, parse_ports
from volcanoio.framework.backoff import Backoff
from volcanoio.framework.events import Change, Event, Observed, Synced
from volcanoio.framework.probe import Probe
from volcanoio.kube.client import Client
from volcanoio.kube.clock import Clock
from volcanoio.kube.errors import ApiError, NotFound
from volcanoio.kube.transport import TransportError
from volcanoio.model import kinds
from volcanoio.model.base import ApiObject
from volcanoio.model.core import Secret
from volcanoio.model.kinds import Kind
from volcanoio.model.nodes import (
    UFM,
    DiscoverySource,
    configuration_object,
    fabric_object,
)

REQUEST_TIMEOUT = 30.0
"""Timeout of a request to UFM in seconds, as in Volcano."""
LARGEST_LIST = 100 << 20
"""Bytes of the largest list of ports that is read, as in Volcano."""
BACKOFF = Backoff(base=10.0, cap=600.0)
"""Delays after a failure; never longer than the interval."""
REQUESTS = "volcanoio_topology_discoveries_total"
_log = structlog.get_logger(__name__)


class DiscoveryError(Exception):
    """A fabric cannot be listed; the message contains the reason and the next step."""


class TopologySources:
    """Publisher of the configuration and of fabrics while `run` runs.

    `client` reads Secrets. `publish` takes each event.
    """

    def __init__(self, publish: Callable[[Event], None], *, client: Client | None, clock: Clock, probe: Probe) -> None:
        self._publish = publish
        self._client = client
        self._clock = clock
        self._probe = probe
        self._sources: tuple[DiscoverySource, ...] = ()
        self._published: dict[str, ApiObject] = {}
        self._listed_from = ""
        """The endpoint that sent the published fabric."""
        self._version = 0
        self._changed = anyio.Event()
        self._is_running = False
        self.asking = 0
        """Requests without a response so far."""

    def configure(self, sources: tuple[DiscoverySource, ...]) -> None:
        """Put sources into force."""
        if sources == self._sources:
            return
        self._sources = sources
        if self._is_running:
            self._withdraw_fabric()
            self._publish_configuration()
            self._changed.set()

    async def run(self) -> None:
        """Publish the configuration, and list the fabric whenever it is due, until cancelled."""
        self._is_running = True
        try:
            self._publish_configuration()
            for kind in kinds.LOCAL:
                self._publish(Synced(resource=kind.resource))
            while True:
                self._changed = anyio.Event()
                source = self._ufm()
                async with anyio.create_task_group() as tasks:
                    if source is not None:
                        tasks.start_soon(self._follow, source)
                    await self._changed.wait()
                    tasks.cancel_scope.cancel()
        finally:
            self._is_running = False

    def _ufm(self) -> DiscoverySource | None:
        return next((each for each in self._sources if each.source == UFM and each.enabled), None)

    def _withdraw_fabric(self) -> None:
        """Remove the fabric of a server that is no longer a source: no HyperNodes may follow from it later."""
        source, name = self._ufm(), f"{kinds.FABRIC.resource}/{UFM}"
        if (source is None or source.endpoint != self._listed_from) and (last := self._published.pop(name, None)):
            self._publish(Observed(resource=kinds.FABRIC.resource, change=Change.GONE, object=last, previous=last))

    def _publish_configuration(self) -> None:
        enabled = [each.source for each in self._sources if each.enabled]
        if enabled or self._published:
            _log.info("sources of HyperNodes", enabled=enabled)
        self._version += 1
        self._publish_object(kinds.DISCOVERY, configuration_object(self._sources, self._version))

    def _publish_object(self, kind: Kind, obj: ApiObject) -> None:
        name = f"{kind.resource}/{obj.metadata.name}"
        previous, self._published[name] = self._published.get(name), obj
        change = Change.APPEARED if previous is None else Change.CHANGED
        self._publish(Observed(resource=kind.resource, change=change, object=obj, previous=previous))

    async def _follow(self, source: DiscoverySource) -> None:
        """List a fabric at its interval; failures are logged and repeated sooner."""
        failures = 0
        while True:
            try:
                links = await self._list(source)
            except DiscoveryError as error:
                failures += 1
                self._probe.count(REQUESTS, source=source.source, result="failed")
                wait = min(source.interval, BACKOFF.delay(failures))
                _log.error(
                    "the fabric cannot be listed; its HyperNodes stay as they are",
                    source=source.source, endpoint=source.endpoint, problem=str(error), retry_in=f"{wait:g}s",
                )  # fmt: skip
            else:
                failures, wait = 0, source.interval
                self._probe.count(REQUESTS, source=source.source, result="listed")
                self._version += 1
                self._listed_from = source.endpoint
                self._publish_object(kinds.FABRIC, fabric_object(source.source, links, self._version))
            await self._clock.idle(wait)

    async def _list(self, source: DiscoverySource) -> Links:
        """Return the links of a fabric. Raises DiscoveryError."""
        self.asking += 1
        try:
            user, password = await self._credentials(source)
            login = base64.b64encode(f"{user}:{password}".encode()).decode()
            body = await _get_ports(source, {"Authorization": f"Basic {login}"})
            links = await anyio.to_thread.run_sync(parse_ports, body)
        except PortsError as error:
            raise DiscoveryError(f"{error}; check config.endpoint") from None
        finally:
            self.asking -= 1
        if not links:
            raise DiscoveryError('no port has "Computer" in its description, so no host is known; check the fabric')
        return links

    async def _credentials(self, source: DiscoverySource) -> tuple[str, str]:
        reference = source.secret
        if reference is None or self._client is None:
            raise DiscoveryError("credentials.secretRef is missing; name a Secret with username and password")
        where = f"Secret {reference.namespace}/{reference.name}"
        try:
            secret = await self._client.get(kinds.SECRET, reference.name, reference.namespace)
        except NotFound:
            create = (
                f"kubectl create secret generic {reference.name} -n {reference.namespace} "
                "--from-literal=username=USER --from-literal=password=PASSWORD"
            )
            raise DiscoveryError(f"{where} does not exist; create it with: {create}") from None
        except (ApiError, TransportError) as error:
            raise DiscoveryError(f"{where} cannot be read: {error}; grant get on it") from None
        assert isinstance(secret, Secret)
        return _text(secret, "username", where), _text(secret, "password", where)


def _text(secret: Secret, key: str, where: str) -> str:
    if key not in secret.data:
        raise DiscoveryError(f'{where} has no key "{key}"; add it')
    try:
        return base64.b64decode(secret.data[key], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise DiscoveryError(f'{where}: the value of "{key}" is not UTF-8 text in base64; write it again') from None


async def _get_ports(source: DiscoverySource, headers: dict[str, str]) -> bytes:
    """Return the list of ports as it is sent. Redirects are not followed, as another host would get the password.

    Raises DiscoveryError.
    """
    address = source.endpoint if "://" in source.endpoint else f"https://{source.endpoint}"
    options: dict[str, Any] = {"ssl": False} if source.insecure_skip_verify else {}
    timeout = aiohttp.ClientTimeout(total=REQUEST_TIMEOUT)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout, headers=headers) as session,
            session.get(address.rstrip("/") + PORTS_PATH, allow_redirects=False, **options) as answer,
        ):
            if answer.status in (401, 403):
                raise DiscoveryError(f"it answered {answer.status}: check username and password in the Secret")
            if answer.status != 200:
                raise DiscoveryError(f"it answered {answer.status} {answer.reason or ''}: check config.endpoint")
            return await _read(answer)
    except aiohttp.ClientConnectorCertificateError as error:
        advice = "trust its certificate authority on this machine, or set insecureSkipVerify: true for a test"
        raise DiscoveryError(f"its certificate is not trusted ({error.certificate_error}); {advice}") from None
    except TimeoutError:
        raise DiscoveryError(f"no answer within {REQUEST_TIMEOUT:g} s; check config.endpoint and the network") from None
    except (aiohttp.ClientError, OSError, ssl.SSLError, ValueError) as error:
        reason = str(error) or type(error).__name__
        raise DiscoveryError(f"{reason}; check config.endpoint and the network") from None


async def _read(answer: aiohttp.ClientResponse) -> bytes:
    body = bytearray()
    async for chunk in answer.content.iter_chunked(1 << 20):
        body += chunk
        if len(body) > LARGEST_LIST:
            limit = LARGEST_LIST >> 20
            raise DiscoveryError(f"the list of ports is larger than {limit} MiB; ask for the ports of a smaller fabric")
    return bytes(body)
