"""Calls to webhooks over HTTPS, at their URL or at a loopback address behind their Service.

There is no cluster network here: a Service is reached where its EndpointSlices or Endpoints name a loopback address,
or at the address of the annotation `volcanoio.dev/local-endpoint` (`127.0.0.1:9443`), for a webhook that runs beside
the cluster. The certificate is checked for `<service>.<namespace>.svc` either way, as by a real API server.
Connections are kept per authority and closed with the server.
"""

from __future__ import annotations

import asyncio
import ssl
from ipaddress import ip_address
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import aiohttp

from volcanoio.localcluster.apiserver.admission.webhooks.configuration import ClientConfig, ServiceReference
from volcanoio.localcluster.apiserver.apimachinery.objects import Ref
from volcanoio.localcluster.apiserver.apimachinery.selectors import Selection
from volcanoio.localcluster.apiserver.storage.store import Store
from volcanoio.model.base import Manifest

LOCAL_ENDPOINT: Final = "volcanoio.dev/local-endpoint"
_SERVICE_NAME: Final = "kubernetes.io/service-name"


class NoEndpoint(Exception):  # noqa: N818 - named for what is the case
    """The Service has no reachable endpoint; the text contains the reason and the fix."""


class Endpoint(NamedTuple):
    """Target of a request.

    `url` is called, `shown` is the URL for messages, `server_name` the name to verify.
    """

    url: str
    shown: str
    server_name: str


def resolve(config: ClientConfig, store: Store) -> Endpoint:
    """Return the endpoint of a webhook; raises NoEndpoint."""
    service = config.service
    if service is None:
        return Endpoint(config.url, config.url, urlsplit(config.url).hostname or "")
    host = f"{service.name}.{service.namespace}.svc"
    path = "/" + service.path.lstrip("/")
    return Endpoint(f"https://{_address(service, store)}{path}", f"https://{host}:{service.port}{path}", host)


def _address(reference: ServiceReference, store: Store) -> str:
    stored = store.get(Ref("services", reference.namespace, reference.name))
    if stored is None:
        msg = f'service "{reference.name}" not found'
        raise NoEndpoint(msg)
    service = stored.decode()
    annotated = (service["metadata"].get("annotations") or {}).get(LOCAL_ENDPOINT)
    if annotated:
        return str(annotated)
    port = _service_port(service, reference)
    found = _slice_address(reference, port, store) or _endpoints_address(reference, port, store)
    if found is None:
        msg = (
            f'no endpoints available for service "{reference.name}": there is no cluster network here; annotate the '
            f"Service with {LOCAL_ENDPOINT}: 127.0.0.1:<port>, give it an EndpointSlice with a loopback address, "
            "or use clientConfig.url"
        )
        raise NoEndpoint(msg)
    return found


def _service_port(service: Manifest, reference: ServiceReference) -> Manifest:
    for port in (service.get("spec") or {}).get("ports") or ():
        if port.get("port") == reference.port:
            return dict(port)
    msg = f'no service port {reference.port} found for service "{reference.name}"'
    raise NoEndpoint(msg)


def _slice_address(reference: ServiceReference, port: Manifest, store: Store) -> str | None:
    slices = store.collection("endpointslices.discovery.k8s.io").select(Selection(reference.namespace))
    for stored in slices:
        if stored.labels.get(_SERVICE_NAME) != reference.name:
            continue
        obj = stored.decode()
        addresses = [
            address
            for endpoint in obj.get("endpoints") or ()
            if (endpoint.get("conditions") or {}).get("ready") is not False
            for address in endpoint.get("addresses") or ()
        ]
        if found := _first_loopback(addresses, _port_number(obj.get("ports"), port)):
            return found
    return None


def _endpoints_address(reference: ServiceReference, port: Manifest, store: Store) -> str | None:
    stored = store.get(Ref("endpoints", reference.namespace, reference.name))
    for subset in (stored.decode().get("subsets") or ()) if stored else ():
        addresses = [one.get("ip", "") for one in subset.get("addresses") or ()]
        if found := _first_loopback(addresses, _port_number(subset.get("ports"), port)):
            return found
    return None


def _port_number(ports: Any, wanted: Manifest) -> int:
    """Return the endpoint's port for a port name of the Service."""
    for one in ports or ():
        if (one.get("name") or "") == (wanted.get("name") or ""):
            return int(one.get("port") or 0)
    target = wanted.get("targetPort")
    return target if isinstance(target, int) else int(wanted.get("port") or 0)


def _first_loopback(addresses: list[str], port: int) -> str | None:
    for address in addresses:
        try:
            found = ip_address(address)
        except ValueError:
            continue
        if found.is_loopback:
            return f"[{found}]:{port}" if found.version == 6 else f"{found}:{port}"
    return None


_IDLE_SECONDS: Final = 5.0
_MAX_ANSWER: Final = 8 * 1024 * 1024
_TEXTS: Final = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    403: "unknown",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    415: "the body of the request was in an unknown format - accepted media types include: application/json",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
}
"""Texts of Kubernetes' clients for an answer without a Status (apimachinery `NewGenericServerResponse`)."""


class CallFailed(Exception):  # noqa: N818 - named for what happened
    """A call without a valid answer; the text is that of Go's client."""


class WebhookClient:
    """Client that posts to webhooks."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None
        self._contexts: dict[bytes, ssl.SSLContext] = {}

    async def post(self, endpoint: Endpoint, authority: bytes, body: bytes, seconds: int) -> bytes:
        """Send a request and return the body of a 200 answer within `seconds`; raises CallFailed."""
        shown = f'Post "{endpoint.shown}?timeout={seconds}s"'
        try:
            context = self._context(authority)
        except ssl.SSLError as error:
            msg = f"unable to load root certificates: {error.reason or error}"
            raise CallFailed(msg) from None
        try:
            async with asyncio.timeout(seconds):
                return await self._post(endpoint, context, body, seconds)
        except TimeoutError:
            msg = f"{shown}: context deadline exceeded"
            raise CallFailed(msg) from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            msg = f"{shown}: {_reason(error, urlsplit(endpoint.url).netloc)}"
            raise CallFailed(msg) from None

    async def _post(self, endpoint: Endpoint, context: ssl.SSLContext, body: bytes, seconds: int) -> bytes:
        if self._session is None:
            connector = aiohttp.TCPConnector(keepalive_timeout=_IDLE_SECONDS, limit=0)
            # No proxy from the environment: a webhook is called at its address.
            self._session = aiohttp.ClientSession(connector=connector, auto_decompress=False, trust_env=False)
        headers = {"Content-Type": "application/json", "Accept": "application/json, */*"}
        headers["Host"] = urlsplit(endpoint.shown).netloc
        async with self._session.post(
            endpoint.url,
            params={"timeout": f"{seconds}s"},
            data=body,
            headers=headers,
            ssl=context,
            server_hostname=endpoint.server_name,
            allow_redirects=False,
        ) as response:
            answer = await response.content.read(_MAX_ANSWER)
            if not 200 <= response.status < 300:
                raise CallFailed(_unexpected(response.status, response.headers.get("Content-Type", ""), answer))
            return answer

    def _context(self, authority: bytes) -> ssl.SSLContext:
        """Return TLS settings that trust the given authority, or those of the machine."""
        found = self._contexts.get(authority)
        if found is None:
            found = ssl.create_default_context(cadata=authority.decode("ascii", "replace") if authority else None)
            self._contexts[authority] = found
        return found

    async def aclose(self) -> None:
        """Close all connections."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()


def _unexpected(status: int, content_type: str, answer: bytes) -> str:
    if status in _TEXTS:
        return _TEXTS[status]
    if status >= 500:
        is_text = not content_type or content_type.startswith("text/")
        text = answer[:2048].decode(errors="replace").strip() if is_text else "unknown"
        return f'an error on the server ("{text}") has prevented the request from succeeding'
    return f"the server responded with the status code {status} but did not return more information"


def _reason(error: Exception, address: str) -> str:
    cause = error.__cause__ or error
    certificate = getattr(error, "certificate_error", None) or cause
    if isinstance(certificate, ssl.SSLCertVerificationError):
        return f"tls: failed to verify certificate: x509: {_x509(certificate)}"
    if isinstance(cause, ConnectionRefusedError) or isinstance(error, aiohttp.ClientConnectorDNSError):
        why = "connect: connection refused" if isinstance(cause, ConnectionRefusedError) else str(cause)
        return f"dial tcp {address}: {why}"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "EOF"
    return str(cause)


def _x509(error: ssl.SSLCertVerificationError) -> str:
    text = error.verify_message
    if "self-signed" in text or "unable to get local issuer" in text:
        return "certificate signed by unknown authority"
    if "expired" in text:
        return "certificate has expired or is not yet valid"
    return text
