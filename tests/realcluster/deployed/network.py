"""The network of the pods: a bridge, one network namespace per pod, and a kube-proxy for services in user space.

Everything is made in the network namespace of the harness, which `launch` enters first, so nothing of it is visible
on the machine, and no port can collide.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import subprocess
from collections.abc import Callable

from tests.realcluster.certificates import SERVICE_ADDRESS
from tests.realcluster.deployed.api import Api, Obj

BRIDGE = "pods0"
HOST_ADDRESS = "10.244.0.1"
_PREFIX = "10.244.0."
_CHUNK = 1 << 16


def ip(*words: str) -> None:
    """Run `ip`; raises with what it printed."""
    ran = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if ran.returncode:
        raise OSError(f"ip {' '.join(words)}: {ran.stderr.strip()}")


class Network:
    """Addresses of pods and services."""

    def __init__(self) -> None:
        self._next = itertools.count(2)
        ip("link", "set", "lo", "up")
        ip("link", "add", BRIDGE, "type", "bridge")
        ip("addr", "add", f"{HOST_ADDRESS}/24", "dev", BRIDGE)
        ip("link", "set", BRIDGE, "up")
        ip("addr", "add", f"{SERVICE_ADDRESS}/32", "dev", "lo")

    def address(self) -> str:
        """Return an address that no pod has had in the last 250 pods."""
        return f"{_PREFIX}{2 + (next(self._next) - 2) % 250}"

    def attach(self, pid: int, address: str) -> None:
        """Give the network namespace of a process an `eth0` on the bridge; configured from inside, see `setup`."""
        outer = f"v{address.rpartition('.')[2]}-{pid}"[:15]
        ip("link", "add", outer, "type", "veth", "peer", "name", "eth0", "netns", str(pid))
        ip("link", "set", outer, "master", BRIDGE, "up")

    @staticmethod
    def setup(address: str) -> list[str]:
        """Return the shell commands that configure `eth0` inside a pod's network namespace."""
        return [
            "ip link set lo up",
            f"ip addr add {address}/24 dev eth0",
            "ip link set eth0 up",
            f"ip route add default via {HOST_ADDRESS}",
        ]


class Forwarder:
    """A TCP listener that passes each connection on to the address that `choose` returns; None closes it."""

    def __init__(self, choose: Callable[[], tuple[str, int] | None]) -> None:
        self._choose = choose
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()

    async def listen(self, host: str, port: int) -> None:
        """Accept connections."""
        self._server = await asyncio.start_server(self._accept, host, port, limit=_CHUNK)

    def cut(self) -> None:
        """Reset every open connection."""
        for writer in tuple(self._open):
            writer.transport.abort()

    async def close(self) -> None:
        """Stop listening and reset every open connection."""
        if self._server is not None:
            self._server.close()
        self.cut()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        target = self._choose()
        if target is None:  # as kube-proxy refuses connections to a service without ready endpoints
            writer.transport.abort()
            return
        try:
            there, back = await asyncio.open_connection(*target, limit=_CHUNK)
        except OSError:
            writer.transport.abort()
            return
        self._open |= {writer, back}
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(_pump(reader, back))
                tasks.create_task(_pump(there, writer))
        finally:
            for one in (writer, back):
                self._open.discard(one)
                one.transport.abort()


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    """Copy until the source ends, and then end the sink's writing side; a broken connection ends both."""
    try:
        while data := await source.read(_CHUNK):
            sink.write(data)
            await sink.drain()
        with contextlib.suppress(OSError, RuntimeError):
            sink.write_eof()
            return
    except OSError:
        pass
    sink.transport.abort()


class ServiceProxy:
    """kube-proxy for the services with a cluster address in one namespace: each port forwards to a ready endpoint."""

    def __init__(self, api: Api, namespace: str) -> None:
        self._api = api
        self._namespace = namespace
        self._endpoints: dict[str, Obj] = {}
        self._forwarders: dict[str, list[Forwarder]] = {}
        self._turn = itertools.count()

    async def run(self) -> None:
        """Follow services and endpoints until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow_endpoints())
            tasks.create_task(self._follow_services())

    async def _follow_endpoints(self) -> None:
        async for kind, one in self._api.follow(f"/api/v1/namespaces/{self._namespace}/endpoints"):
            if kind != "SYNCED":
                self._endpoints[one["metadata"]["name"]] = one if kind != "DELETED" else {}

    async def _follow_services(self) -> None:
        async for kind, service in self._api.follow(f"/api/v1/namespaces/{self._namespace}/services"):
            address = service.get("spec", {}).get("clusterIP", "None")
            if kind == "SYNCED" or address in {"None", ""}:
                continue
            for forwarder in self._forwarders.pop(address, ()):
                await forwarder.close()
            if kind == "DELETED":
                continue
            with contextlib.suppress(OSError):  # the address stays when a service is changed
                ip("addr", "add", f"{address}/32", "dev", "lo")
            made = self._forwarders[address] = []
            for port in service["spec"]["ports"]:
                forwarder = Forwarder(self._chooser(service["metadata"]["name"], port.get("name", "")))
                await forwarder.listen(address, port["port"])
                made.append(forwarder)

    def _chooser(self, service: str, port: str) -> Callable[[], tuple[str, int] | None]:
        def choose() -> tuple[str, int] | None:
            ready = [
                (address["ip"], offered["port"])
                for subset in self._endpoints.get(service, {}).get("subsets") or ()
                for address in subset.get("addresses") or ()
                for offered in subset.get("ports") or ()
                if offered.get("name", "") == port
            ]
            return ready[next(self._turn) % len(ready)] if ready else None

        return choose
