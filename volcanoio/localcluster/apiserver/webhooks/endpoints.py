"""Where a webhook listens: its URL, or the loopback address behind its Service.

There is no cluster network here: a Service is reached where its EndpointSlices or Endpoints name a loopback address,
or at the address of the annotation `volcanoio.dev/local-endpoint` (`127.0.0.1:9443`), for a webhook that runs beside
the cluster. The certificate is checked for `<service>.<namespace>.svc` either way, as by a real API server.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from volcanoio.localcluster.apiserver.objects import Ref
from volcanoio.localcluster.apiserver.selection import Selection
from volcanoio.localcluster.apiserver.store import Store
from volcanoio.localcluster.apiserver.webhooks.configuration import ClientConfig, ServiceReference
from volcanoio.model.base import Manifest

LOCAL_ENDPOINT: Final = "volcanoio.dev/local-endpoint"
_SERVICE_NAME: Final = "kubernetes.io/service-name"


class NoEndpoint(Exception):  # noqa: N818 - named for what is the case
    """The Service leads nowhere; the text says why and what helps."""


class Endpoint(NamedTuple):
    """`url` is called; `shown` is what it stands for, and `server_name` whom the certificate must name."""

    url: str
    shown: str
    server_name: str


def resolve(config: ClientConfig, store: Store) -> Endpoint:
    """The endpoint of a webhook; raises NoEndpoint."""
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
    """The endpoint's port of the name of the Service's port."""
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
