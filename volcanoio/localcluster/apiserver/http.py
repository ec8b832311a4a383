"""Where the API server listens: a loopback address, with TLS and a token, until the block ends."""

from __future__ import annotations

import errno
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from aiohttp import web

from volcanoio.localcluster.apiserver.auth import LOOPBACK_NAMES, Guard
from volcanoio.localcluster.apiserver.caller import User
from volcanoio.localcluster.apiserver.identity import Identity
from volcanoio.localcluster.apiserver.metrics.traffic import Traffic
from volcanoio.localcluster.apiserver.shell import Api, HttpShell, ShellServer

CLOSE_LIMIT = 2.0
"""Seconds that requests being answered get when the server closes."""


class PortBusy(OSError):  # noqa: N818 - named for what happened
    """Another process listens on the wanted port."""

    def __init__(self, host: str, port: int) -> None:
        super().__init__(
            errno.EADDRINUSE,
            f"port {port} on {host} is in use by another process; stop that process, choose another port, "
            "or use port 0 to take any free one",
        )
        self.port = port


@dataclass(frozen=True, slots=True)
class Bound:
    """Where the server listens. `ca_pem` is empty without TLS, `token` without authentication.

    `connections` counts the clients' connections that are open now.
    """

    host: str
    port: int
    token: str = ""
    ca_pem: bytes = b""
    connections: Callable[[], int] = int

    @property
    def url(self) -> str:
        """The server's URL, without a slash at its end."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.ca_pem else 'http'}://{host}:{self.port}"


@asynccontextmanager
async def serve(
    api: Api,
    host: str = "127.0.0.1",
    port: int = 0,
    *,
    token: str = "",
    identity: Identity | None = None,
    account: Callable[[str], User | None] | None = None,
    traffic: Traffic | None = None,
) -> AsyncIterator[Bound]:
    """Serve `api` on a loopback address until the block ends; port 0 takes a free one.

    With `identity` the server speaks TLS and asks for the identity's token (or `token`, when given), a client
    certificate of its authority, or a service account's token whose user `account` finds. Requests are counted in
    `traffic`. Raises ValueError
    for an address that is not loopback, PortBusy when the port is taken. Leaving the block ends watches at once.
    """
    if host not in LOOPBACK_NAMES:
        raise ValueError(f"host: {host!r} is not a loopback address; use one of {', '.join(sorted(LOOPBACK_NAMES))}")
    token = token or (identity.token if identity else "")
    shell = HttpShell(api, Guard(token, account=account), traffic)
    server = ShellServer(shell)
    runner = web.ServerRunner(server, shutdown_timeout=CLOSE_LIMIT)
    await runner.setup()
    try:
        bound_socket = _listen(host, port)
        context = identity.server_context() if identity else None
        await web.SockSite(runner, bound_socket, ssl_context=context, backlog=1024).start()
        port, ca_pem = bound_socket.getsockname()[1], identity.ca_pem if identity else b""
        yield Bound(host, port, token, ca_pem, lambda: len(server.connections))
    finally:
        shell.end_streams()
        await runner.cleanup()


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        # Without it a restart would have to wait for old connections to leave TIME_WAIT.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(1024)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise PortBusy(host, port) from None
        raise
    return listener
