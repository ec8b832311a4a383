"""Failover of the scheduler: `python -m bench.failover [--nodes 5000] [--pods 100000] [--runs 3]`.

The embedded API server (in this process, over HTTP) holds nodes and bound pods of gangs of 100. Of two processes of
`volcanoio scheduler` the leader is killed with SIGKILL, and a PodGroup with one pod is created. Measured until the
lease has another holder, and until that pod has a node. Then a new standby starts. At last both are ended, and a new
process starts: measured from its start until a pod that waits for it has a node. Prints one JSON object, in seconds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import yaml

from bench.machine import machine, software
from bench.statistics import percentile
from volcanoio.compose.local import install_crds
from volcanoio.localcluster.apiserver.apimachinery.request import ApiRequest, ApiResponse
from volcanoio.localcluster.apiserver.http.listener import serve
from volcanoio.localcluster.apiserver.inprocess import InProcessTransport
from volcanoio.localcluster.apiserver.server import ApiServer, install
from volcanoio.model import kinds
from volcanoio.model.base import Manifest
from volcanoio.model.kinds import Kind

NAMESPACE, GANG = "default", 100
LEASE_SECONDS = 15.0
_LEASE = kinds.LEASE.path("volcano-system", "volcano")
_POLL_SECONDS = 0.01
_READY = b'"event":"ready"'


class Cluster:
    """The server and requests to it without HTTP."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server

    async def read(self, path: str) -> Manifest:
        """Return an object; {} if it does not exist."""
        answer = await self._server.handle(ApiRequest("GET", path))
        assert isinstance(answer, ApiResponse)
        return dict(json.loads(answer.body)) if answer.status == 200 else {}

    async def create(self, kind: Kind, manifest: Manifest) -> None:
        """Create an object that must be accepted."""
        body = json.dumps({"apiVersion": kind.api_version, "kind": kind.kind, **manifest}).encode()
        namespace = NAMESPACE if kind.namespaced else ""
        answer = await self._server.handle(ApiRequest("POST", kind.path(namespace), body=body))
        if not isinstance(answer, ApiResponse) or answer.status != 201:
            msg = f"{kind.kind} {manifest['metadata']['name']} was refused: {answer}"
            raise RuntimeError(msg)

    async def fill(self, nodes: int, pods: int) -> None:
        """Create the nodes, and pods that are bound to them in turn."""
        resources = {"cpu": "32", "memory": "128Gi", "pods": "110"}
        for number in range(nodes):
            status = {"capacity": resources, "allocatable": resources}
            await self.create(kinds.NODE, {"metadata": {"name": f"node-{number}"}, "status": status})
        for first in range(0, pods, GANG):
            size = min(GANG, pods - first)
            await self.create(kinds.POD_GROUP, group(f"gang-{first}", size, "Running"))
            for number in range(first, first + size):
                await self.create(kinds.POD, pod(f"pod-{number}", f"gang-{first}", f"node-{number % nodes}"))
            await asyncio.sleep(0)

    async def holder(self) -> str:
        """Return who holds the scheduler's lease."""
        return str((await self.read(_LEASE)).get("spec", {}).get("holderIdentity", ""))

    async def until_bound(self, name: str) -> None:
        """Wait until a pod has a node."""
        path = kinds.POD.path(NAMESPACE, name)
        while not (await self.read(path))["spec"].get("nodeName"):  # noqa: ASYNC110 - the schedulers are processes
            await asyncio.sleep(_POLL_SECONDS)

    async def until_held(self, before: str) -> None:
        """Wait until another process holds the lease."""
        while await self.holder() in ("", before):  # noqa: ASYNC110 - as above
            await asyncio.sleep(_POLL_SECONDS)


def group(name: str, size: int, phase: str) -> Manifest:
    """Return a PodGroup of the default queue."""
    return {"metadata": {"name": name}, "spec": {"minMember": size, "queue": "default"}, "status": {"phase": phase}}


def pod(name: str, gang: str, node: str = "") -> Manifest:
    """Return a pod of a gang, on a node if one is given."""
    return {
        "metadata": {"name": name, "annotations": {"scheduling.k8s.io/group-name": gang}},
        "spec": {
            "schedulerName": "volcano",
            "restartPolicy": "Never",
            "containers": [
                {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}
            ],
            **({"nodeName": node} if node else {}),
        },
    }


@contextmanager
def scheduler(kubeconfig: Path, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a scheduler process until the block ends."""
    command = "import sys; from volcanoio.cli.main import main; sys.argv[0] = 'volcanoio'; main()"
    words = ["scheduler", f"--kubeconfig={kubeconfig}", "--leader-elect=true", "--schedule-period=1s"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-c", command, *words], stdout=output, stderr=output, stdin=subprocess.DEVNULL
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


async def until_ready(process: subprocess.Popen[bytes], log: Path) -> float:
    """Wait until a scheduler has listed everything; returns the seconds that took."""
    began = time.perf_counter()
    while _READY not in (text := await asyncio.to_thread(log.read_bytes)):
        if process.poll() is not None:
            raise RuntimeError(text.decode())
        await asyncio.sleep(0.1)
    return time.perf_counter() - began


async def measure(cluster: Cluster, directory: Path, runs: int) -> dict[str, Any]:
    """Kill the leader `runs` times."""
    held: list[float] = []
    bound: list[float] = []
    ready: list[float] = []
    with ExitStack() as stack:

        async def start(number: int) -> subprocess.Popen[bytes]:
            log = directory / f"{number}.log"
            process = stack.enter_context(scheduler(directory / "kubeconfig", log))
            ready.append(await until_ready(process, log))
            return process

        leader = await start(0)
        await cluster.until_held("")
        standby = await start(1)
        for run in range(runs):
            holder = await cluster.holder()
            leader.kill()
            began = time.perf_counter()
            await cluster.create(kinds.POD_GROUP, group(f"late-{run}", 1, "Pending"))
            await cluster.create(kinds.POD, pod(f"late-{run}", f"late-{run}"))
            await cluster.until_held(holder)
            held.append(time.perf_counter() - began)
            await cluster.until_bound(f"late-{run}")
            bound.append(time.perf_counter() - began)
            leader, standby = standby, await start(run + 2)
        restarted = []
        running = [leader, standby]
        for run in range(runs):
            for process in running:
                process.terminate()
                await asyncio.to_thread(process.wait)
            await cluster.create(kinds.POD_GROUP, group(f"restart-{run}", 1, "Pending"))
            await cluster.create(kinds.POD, pod(f"restart-{run}", f"restart-{run}"))
            began = time.perf_counter()
            running = [await start(2 * runs + run)]
            await cluster.until_bound(f"restart-{run}")
            restarted.append(time.perf_counter() - began)
    return {
        "standby_ready_median": round(percentile(ready[1:], 0.5), 2),
        "lease_held_again": [round(one, 2) for one in held],
        "first_bind": [round(one, 2) for one in bound],
        "from_lease_to_first_bind_median": round(
            percentile([late - early for early, late in zip(held, bound, strict=True)], 0.5), 2
        ),
        "first_bind_within_lease_and_3": max(bound) <= LEASE_SECONDS + 3,
        "restart_to_first_bind": [round(one, 2) for one in restarted],
    }


async def failover(nodes: int, pods: int, runs: int) -> dict[str, Any]:
    """Fill a server and measure."""
    with tempfile.TemporaryDirectory(prefix="volcanoio-bench-") as name:
        directory = Path(name)
        async with ApiServer.open(None).running() as server:
            install(server)
            await install_crds(InProcessTransport(server))
            cluster = Cluster(server)
            await cluster.fill(nodes, pods)
            async with serve(server) as bound:
                kubeconfig = {
                    "current-context": "bench",
                    "clusters": [{"name": "bench", "cluster": {"server": bound.url}}],
                    "users": [{"name": "bench", "user": {"token": bound.token}}],
                    "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}],
                }
                (directory / "kubeconfig").write_text(yaml.safe_dump(kubeconfig))
                return await measure(cluster, directory, runs)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.failover", description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args(arguments)
    before = machine()
    figures = asyncio.run(failover(given.nodes, given.pods, given.runs))
    report = {"nodes": given.nodes, "pods": given.pods, **figures, "machine": before, "software": software()}
    print(json.dumps(report, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
