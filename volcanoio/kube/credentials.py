"""What goes into the Authorization header, refreshed as it ages."""

from __future__ import annotations

import asyncio
import base64
import time
from pathlib import Path
from typing import Any, Protocol

_RECHECK = 30.0
"""Seconds after which a token that can age is looked at again."""


class Credentials(Protocol):
    """The Authorization header of a request."""

    async def header(self, *, renew: bool = False) -> str:
        """The header's value, "" for none. `renew`: the server refused the last one, fetch another."""
        ...


class StaticCredentials:
    """A fixed header, or a bearer token in a file that somebody else rotates."""

    def __init__(self, value: str = "", token_file: str = "") -> None:
        self._value = value
        self._file = token_file
        self._read_at = float("-inf")

    async def header(self, *, renew: bool = False) -> str:
        """The header's value; a token file is read again every 30 s."""
        if self._file and (renew or time.monotonic() - self._read_at > _RECHECK):
            self._value = "Bearer " + Path(self._file).read_text().strip()  # noqa: ASYNC240 - a small local file
            self._read_at = time.monotonic()
        return self._value


def basic(username: str, password: str) -> str:
    """The header's value for a name and a password (RFC 7617)."""
    return "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()


class _LibraryCredentials:
    """A kubernetes_asyncio Configuration kept fresh by its own loader. `load` refills it and knows token expiry."""

    def __init__(self, configuration: Any, load: Any, *, expires: Any) -> None:
        self._configuration = configuration
        self._load = load
        self._expires = expires
        self._checked = time.monotonic()
        self._lock = asyncio.Lock()

    async def header(self, *, renew: bool = False) -> str:
        """The header's value. A token without expiry is fetched again only when the server refused it."""
        aged = self._expires() and time.monotonic() - self._checked > _RECHECK
        if renew or aged:
            async with self._lock:
                await self._load(renew)
                self._checked = time.monotonic()
        value = await self._configuration.get_api_key_with_prefix("BearerToken")
        return str(value or "")


async def from_kubeconfig(path: Path, context: str) -> tuple[Credentials, tuple[bytes, bytes] | None]:
    """Credentials of an exec plug-in or auth provider, and the client certificate and key (PEM) it may have given."""
    from kubernetes_asyncio import client, config  # noqa: PLC0415 - half a second and 60 MiB, only where needed

    configuration = client.Configuration()
    loader = await config.load_kube_config(
        config_file=str(path), context=context, client_configuration=configuration, persist_config=False
    )

    async def load(renew: bool) -> None:
        if renew and hasattr(loader, "exec_plugin_expiry"):
            del loader.exec_plugin_expiry
        await loader.load_and_set(configuration)

    credentials = _LibraryCredentials(
        configuration, load, expires=lambda: loader.provider is not None or hasattr(loader, "exec_plugin_expiry")
    )
    return credentials, _pair(configuration.cert_file, configuration.key_file)


def _pair(certificate: str | None, key: str | None) -> tuple[bytes, bytes] | None:
    return (Path(certificate).read_bytes(), Path(key).read_bytes()) if certificate and key else None


def from_cluster() -> tuple[str, str, Credentials]:
    """Server, CA file and credentials of the service account of the pod we run in."""
    from kubernetes_asyncio import client, config  # noqa: PLC0415 - half a second and 60 MiB, only where needed

    configuration = client.Configuration()
    read: Any = config.load_incluster_config
    read(client_configuration=configuration)

    async def load(renew: bool) -> None:
        if renew:
            read(client_configuration=configuration)

    # The library's own hook, run by get_api_key_with_prefix, reads the rotated token file every minute.
    credentials = _LibraryCredentials(configuration, load, expires=lambda: False)
    return str(configuration.host), str(configuration.ssl_ca_cert), credentials
