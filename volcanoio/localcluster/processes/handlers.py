"""Handlers of lifecycle hooks (postStart, preStop) and of probes: exec, HTTP, TCP and sleep.

Kubernetes: `pkg/kubelet/lifecycle/handlers.go`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import aiohttp

from volcanoio.localcluster.processes.launcher import Command
from volcanoio.localcluster.processes.pipes import PipeEnd

Exec = Callable[[list[str]], Awaitable[tuple[int, bytes]]]
"""Runs a command in the container; its exit code and the end of its output."""
_HTTP_SECONDS = 30.0


class HookError(Exception):
    """A hook failed; the text contains the reason."""


async def collect(command: Command) -> tuple[int, bytes]:
    """Run a command to its end; returns its exit code and output."""
    try:
        ends = [end for end in (command.streams.stdout, command.streams.stderr) if end is not None]
        output = await asyncio.gather(*[_all(end) for end in ends])
        return await command.wait(), b"".join(output)
    finally:
        await asyncio.shield(command.aclose())


async def _all(end: PipeEnd) -> bytes:
    chunks = []
    while data := await end.read():
        chunks.append(data)
    return b"".join(chunks)


async def run_hook(hook: Mapping[str, Any], run: Exec, container: Mapping[str, Any], address: str) -> None:
    """Run a handler (`exec`, `httpGet`, `tcpSocket`, `sleep`) of a container.

    Raises HookError.
    """
    if action := hook.get("exec"):
        code, output = await run(list(action.get("command") or ()))
        if code:
            raise HookError(f"command exited with {code}: {output.decode(errors='replace').strip()[-500:]}")
    elif action := hook.get("httpGet"):
        url = hook_url(action, container, address)
        headers = {one["name"]: one["value"] for one in action.get("httpHeaders") or ()}
        try:
            timeout = aiohttp.ClientTimeout(total=_HTTP_SECONDS)
            async with (
                aiohttp.ClientSession(timeout=timeout) as session,
                session.get(url, headers=headers, ssl=False) as response,
            ):
                if response.status >= 400:
                    raise HookError(f"GET {url}: HTTP {response.status}")
        except (aiohttp.ClientError, TimeoutError) as error:
            raise HookError(f"GET {url}: {error}") from error
    elif action := hook.get("tcpSocket"):
        host, port = str(action.get("host") or address), port_number(action, container)
        try:
            _, writer = await asyncio.open_connection(host, port)
        except OSError as error:
            raise HookError(f"dial tcp {host}:{port}: {error}") from error
        writer.close()
    elif action := hook.get("sleep"):
        await asyncio.sleep(float(action.get("seconds") or 0))


def hook_url(action: Mapping[str, Any], container: Mapping[str, Any], address: str) -> str:
    """Return the URL of an `httpGet`; a named port is resolved in the container."""
    number = port_number(action, container)
    path = str(action.get("path") or "/")
    scheme = str(action.get("scheme") or "HTTP").lower()
    return f"{scheme}://{action.get('host') or address}:{number}{path if path.startswith('/') else '/' + path}"


def port_number(action: Mapping[str, Any], container: Mapping[str, Any]) -> int:
    """Return the port of a handler, by number or by its name in the container. Raises HookError."""
    port = action.get("port")
    named = {one.get("name"): one.get("containerPort") for one in container.get("ports") or ()}
    try:
        return int(named.get(port) or str(port))
    except ValueError:
        raise HookError(f"port {port!r} is neither a number nor the name of a port of the container") from None
