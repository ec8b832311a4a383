"""Whether one scheduler's troubles reach another: `python -m bench.sharing [--real] [--samples 100] [--flood 5000]`.

An API server has the nodes of two zones, and a scheduler for each zone runs in a process of its own, over HTTPS. The
API server is the embedded one, in this process, or with `--real` a control plane of etcd and kube-apiserver (built by
`make real-apiserver`) with hollow nodes. A user creates a gang in zone b now and then and waits for its binds: first
alone, twice, which shows how much the figures vary by themselves; while as many pods as in the next phase exist and are
created that no scheduler is asked to place, which is the API server's part; while the scheduler of zone a has thousands
of pods that find no room and gets more; while it has them still; and after it was killed. Prints one JSON object with
the times from the creation of a gang's last pod until each pod is bound. One machine has everything, so a scheduler
in trouble also takes processor time from the others; `cores` and `load_average` belong to the figures. `busy_cores`
are the processor seconds that each process used per second of a phase.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from bench.machine import machine, software
from bench.real import NODE, install, until_ready
from bench.realplane.processes import HARNESS, hollow_nodes, plane, process_cpu_seconds
from bench.statistics import percentile
from tests.realcluster.binaries import VERSION
from volcanoio.compose.local import LocalCluster
from volcanoio.compose.options import LocalOptions
from volcanoio.kube import kubeconfig
from volcanoio.kube.client import Client
from volcanoio.kube.http_transport import HttpTransport
from volcanoio.model import kinds
from volcanoio.model.base import Manifest
from volcanoio.model.core import Pod
from volcanoio.model.names import GROUP_NAME, GROUP_SCHEDULER
from volcanoio.runtime.garbage_collection import tune_garbage_collector

ZONE = "zone"
QUEUE: Manifest = {"apiVersion": kinds.QUEUE.api_version, "kind": "Queue", "spec": {"weight": 1}}
GANG = 8
"""Pods of a gang that is measured."""
UNSCHEDULED = "unscheduled"
"""A schedulerName that no scheduler has."""
FLOOD_GANG, FLOOD_CPU = 50, "9"
"""Pods of a gang of the flood, and the cores of each: one fits each node, and the zone has fewer nodes than pods."""
FLOOD_PAUSE = 1.0
"""Seconds between two further gangs of the flood."""
TOLERANCE = 1.10
"""Allowed p99 in trouble, as a multiple of that alone."""
PAUSE = 0.05
"""Seconds between two gangs."""
PATIENCE = 30.0
"""Seconds after which a gang counts as lost."""


@contextmanager
def scheduler(zone: str, config: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run the scheduler of a zone as a process."""
    command = [sys.executable, "-m", "volcanoio", "scheduler", f"--kubeconfig={config}", f"--scheduler-name={zone}"]
    command += [f"--node-selector={ZONE}:{zone}", "--leader-elect=false", "--listen-address=127.0.0.1:0"]
    process = subprocess.Popen([*command, "--enable-healthz=false"], stdout=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def gang(name: str, zone: str, pods: int, cpu: str = "250m") -> list[Manifest]:
    """Return a PodGroup of a zone's scheduler and its pods."""
    meta = {"namespace": "default", "annotations": {GROUP_SCHEDULER: zone}}
    group = {
        "apiVersion": kinds.POD_GROUP.api_version,
        "kind": "PodGroup",
        "metadata": {"name": name, **meta},
        "spec": {"minMember": pods, "queue": zone},
    }
    spec = {
        "schedulerName": zone,
        "restartPolicy": "Never",
        "containers": [{"name": "c", "image": "busybox", "resources": {"requests": {"cpu": cpu}}}],
    }
    members = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"{name}-{number}", "namespace": "default", "annotations": {GROUP_NAME: name}},
            "spec": spec,
        }
        for number in range(pods)
    ]
    return [group, *members]


async def create(client: Client, manifests: Sequence[Manifest]) -> None:
    """Create objects, the first one before the others."""
    for manifest in manifests:
        kind = kinds.named(manifest["apiVersion"], manifest["kind"])
        assert kind is not None
        await client.create(kind, manifest, namespace="default")


class User:
    """Creates gangs in zone b, and watches their pods."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._bound: dict[str, float] = {}
        self._number = 0
        self._changed = anyio.Event()

    async def watch(self) -> None:
        """Record when pods are seen bound, until cancelled."""
        while True:
            async with self._client.watch(kinds.POD, "default") as events:
                async for event in events:
                    pod = event.object
                    if isinstance(pod, Pod) and pod.spec.node_name:
                        self._bound.setdefault(pod.metadata.name, time.monotonic())
                        self._changed.set()

    async def measure(self, samples: int) -> dict[str, Any]:
        """Return the figures of so many gangs, one after the other; each is deleted once it is bound."""
        seconds: list[float] = []
        for _ in range(samples):
            self._number += 1
            manifests = gang(f"gang-{self._number}", "b", GANG)
            await create(self._client, manifests)
            since = time.monotonic()
            names = [manifest["metadata"]["name"] for manifest in manifests[1:]]
            with anyio.fail_after(PATIENCE):
                while not all(name in self._bound for name in names):
                    self._changed = anyio.Event()
                    await self._changed.wait()
            seconds += [max(self._bound[name] - since, 0.0) for name in names]
            for name in names:
                await self._client.delete(kinds.POD, name, "default")
            await self._client.delete(kinds.POD_GROUP, manifests[0]["metadata"]["name"], "default")
            await anyio.sleep(PAUSE)
        return {
            "pods": len(seconds),
            "p50_ms": round(percentile(seconds, 0.5) * 1000, 2),
            "p99_ms": round(percentile(seconds, 0.99) * 1000, 2),
        }


@asynccontextmanager
async def flood(client: Client, zone: str, pods: int) -> AsyncIterator[None]:
    """Create gangs that find no room in a zone, so many pods first and then more until the body is left."""
    for number in range(pods // FLOOD_GANG):
        await create(client, gang(f"flood-{zone}-{number}", zone, FLOOD_GANG, FLOOD_CPU))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_keep_flooding, client, zone)
        yield
        tasks.cancel_scope.cancel()


async def _keep_flooding(client: Client, zone: str) -> None:
    number = 0
    while True:
        number += 1
        await create(client, gang(f"more-{zone}-{number}", zone, FLOOD_GANG, FLOOD_CPU))
        await anyio.sleep(FLOOD_PAUSE)


@dataclass(frozen=True)
class Cluster:
    """A running cluster without scheduler, and the process ids of its servers by name."""

    kubeconfig: Path
    servers: Mapping[str, int]


@asynccontextmanager
async def embedded(directory: Path, nodes: int) -> AsyncIterator[Cluster]:
    """Run an embedded cluster in this process."""
    options = LocalOptions(nodes=nodes, node_resources=NODE, data=directory, scheduler_name=("unused",))
    async with LocalCluster(options) as cluster:
        cluster.stop("scheduler")
        yield Cluster(cluster.kubeconfig, {"apiserver and user": os.getpid()})


@asynccontextmanager
async def real(directory: Path, nodes: int) -> AsyncIterator[Cluster]:
    """Run a real control plane with hollow nodes."""
    with plane(directory) as there:
        transport = HttpTransport(await kubeconfig.from_file(there.kubeconfig(HARNESS)))
        client = Client(transport)
        await install(client)
        with hollow_nodes(there, nodes, NODE) as kubelets:
            await until_ready(client, nodes)
            await transport.aclose()
            servers = {name: server.pid for name, server in there.control.servers.items()}
            yield Cluster(there.kubeconfig(HARNESS), {**servers, "hollow-nodes": kubelets.pid, "user": os.getpid()})


class Measurement:
    """Measures phases: what a user waits for, and what each process uses meanwhile."""

    def __init__(self, user: User, processes: Mapping[str, int], samples: int) -> None:
        self._user = user
        self._processes = processes
        self._samples = samples

    async def phase(self) -> dict[str, Any]:
        """Return the figures of one phase."""
        since, before = time.monotonic(), {name: _used(pid) for name, pid in self._processes.items()}
        figures = await self._user.measure(self._samples)
        seconds = time.monotonic() - since
        busy = {name: round((_used(pid) - before[name]) / seconds, 2) for name, pid in self._processes.items()}
        return {**figures, "busy_cores": busy}


def _used(pid: int) -> float:
    """Return the processor seconds of a process, 0 if it has ended."""
    try:
        return process_cpu_seconds(pid)
    except FileNotFoundError:
        return 0.0


async def prepare(client: Client, nodes: int) -> None:
    """Create the queue of each zone, and put half of the nodes in each."""
    for zone in ("a", "b", UNSCHEDULED):
        await client.create(kinds.QUEUE, {**QUEUE, "metadata": {"name": zone}})
    found = await client.list(kinds.NODE)
    for number, node in enumerate(found):
        labels = {"metadata": {"labels": {ZONE: "a" if number < nodes else "b"}}}
        await client.patch(kinds.NODE, node.metadata.name, labels)


async def measure(samples: int, pods: int, nodes: int, *, on_real: bool) -> dict[str, Any]:
    """Measure the phases."""
    async with AsyncExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        cluster = await stack.enter_async_context((real if on_real else embedded)(directory, 2 * nodes))
        tasks = await stack.enter_async_context(anyio.create_task_group())
        transport = HttpTransport(await kubeconfig.from_file(cluster.kubeconfig))
        stack.push_async_callback(transport.aclose)
        client = Client(transport)
        await prepare(client, nodes)
        schedulers = {zone: stack.enter_context(scheduler(zone, cluster.kubeconfig)) for zone in ("a", "b")}
        pids = {f"scheduler {zone}": process.pid for zone, process in schedulers.items()}
        user = User(client)
        tasks.start_soon(user.watch)
        await user.measure(max(samples // 10, 1))  # everything is warm
        measurement = Measurement(user, {**cluster.servers, **pids}, samples)
        figures = {"alone": await measurement.phase(), "alone_again": await measurement.phase()}
        async with flood(client, UNSCHEDULED, pods):
            figures["created_unscheduled"] = await measurement.phase()
        async with flood(client, "a", pods):
            figures["flooded"] = await measurement.phase()
        figures["flood_stands"] = await measurement.phase()
        schedulers["a"].kill()
        schedulers["a"].wait()
        figures["killed"] = await measurement.phase()
        tasks.cancel_scope.cancel()
    return figures


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print the figures; returns 1 if a p99 exceeds its tolerance."""
    parser = argparse.ArgumentParser(prog="python -m bench.sharing", description=__doc__)
    parser.add_argument(
        "--real", action="store_true", help="on a real control plane instead of the embedded API server"
    )
    parser.add_argument("--samples", type=int, default=100, help="gangs in each phase")
    parser.add_argument("--flood", type=int, default=5000, help="pods that find no room in the other zone")
    parser.add_argument("--nodes", type=int, default=20, help="nodes of a zone")
    given = parser.parse_args(arguments)
    tune_garbage_collector()
    phases = anyio.run(partial(measure, given.samples, given.flood, given.nodes, on_real=given.real))
    alone = phases["alone"]["p99_ms"]
    ratios = {phase: round(figures["p99_ms"] / alone, 3) for phase, figures in phases.items() if phase != "alone"}
    figures = {
        "bench": "sharing",
        "api_server": f"kube-apiserver {VERSION}" if given.real else "embedded",
        "machine": machine(),
        "software": software(),
        "workload": {"samples": given.samples, "gang": GANG, "flood": given.flood, "nodes_per_zone": given.nodes},
        **phases,
        "p99_as_a_multiple_of_alone": ratios,
        "p99_flooded_as_a_multiple_of_created_unscheduled": round(
            phases["flooded"]["p99_ms"] / phases["created_unscheduled"]["p99_ms"], 3
        ),
        "within_10_percent": all(ratios[phase] <= TOLERANCE for phase in ("flooded", "killed")),
    }
    print(json.dumps(figures, indent=2))
    return 0 if figures["within_10_percent"] else 1


if __name__ == "__main__":
    sys.exit(main())
