"""Jobs on a real control plane: `python -m bench.real [--rows 20x50 …] [--baseline DIR]`.

etcd, kube-apiserver and kube-controller-manager run on this machine (built by `make real-apiserver`), with our
definitions, hollow nodes, and scheduler and controllers as processes of their own over HTTPS. Each row has a new
control plane. With `--baseline` every row runs with the components of another checkout, too, in alternation. Writes are
counted by the API server's audit log, by user; those of users, of kubelets and of leases are listed apart. Prints one
JSON object, and writes it to `--output`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.machine import machine, software
from bench.realplane.audit import Request, reads, writes_per_pod
from bench.realplane.processes import (
    COMPONENTS,
    HARNESS,
    ROOT,
    Checkout,
    Plane,
    components,
    cpu_seconds,
    hollow_nodes,
    peak_memory_mib,
    plane,
)
from bench.realplane.rows import Row, RowError, carry_out, warm_up
from tests.realcluster.binaries import VERSION
from volcanoio.compose.local import install_crds
from volcanoio.kube.client import Client
from volcanoio.kube.errors import AlreadyExists
from volcanoio.kube.http_transport import HttpTransport
from volcanoio.kube.kubeconfig import from_file
from volcanoio.kube.transport import TransportError
from volcanoio.model import kinds, names
from volcanoio.model.core import Node

DEFAULT_ROWS = ("20x50", "200x5", "1x1000", "1000x1", "6x500@1000", "20x1:one-by-one")
NODE = "cpu=16,memory=64Gi,pods=110"
TRAILING_SECONDS = 5.0
"""Time after the last pod runs in which writes still count."""
START_SECONDS = 120.0
ASIDE = ("leases", "selfsubjectaccessreviews")
CUSTOM_KINDS = (kinds.JOB, kinds.POD_GROUP, kinds.QUEUE, kinds.COMMAND)
_POLL_SECONDS = 0.2


async def run_row(there: Plane, row: Row, checkout: Checkout) -> dict[str, Any]:
    """Carry out one row on a new control plane; returns its figures."""
    transport = HttpTransport(await from_file(there.kubeconfig(HARNESS)))
    client = Client(transport)
    try:
        await install(client)
        with hollow_nodes(there, row.nodes, NODE) as kubelets, components(there, checkout) as ours:
            await until_ready(client, row.nodes)
            await asyncio.wait_for(warm_up(client), START_SECONDS)
            await asyncio.sleep(TRAILING_SECONDS)
            servers = {**ours, **there.control.servers, "hollow-nodes": kubelets}
            position, before = there.audit.position(), cpu_seconds(servers)
            figures = await carry_out(client, row)
            await asyncio.sleep(TRAILING_SECONDS)
            after, memory = cpu_seconds(servers), peak_memory_mib(servers)
    finally:
        await transport.aclose()
    requests = list(there.audit.since(position))
    used = {name: round(after[name] - before[name], 2) for name in servers}
    return {
        **figures,
        **_written(requests, row.total),
        "reads": {user: reads(requests, user) for user in COMPONENTS},
        "cpu_seconds": used,
        "cpu_ms_per_pod": {name: round(1000 * seconds / row.total, 2) for name, seconds in used.items()},
        "peak_memory_mib": memory,
    }


async def install(client: Client) -> None:
    """Install our definitions, and the queues that Volcano's scheduler creates."""
    await install_crds(client.transport)
    for kind in CUSTOM_KINDS:
        while (await client.transport.request("GET", kind.path(""))).status != 200:  # noqa: ASYNC110 - a server's state
            await asyncio.sleep(_POLL_SECONDS)
    for name in (names.ROOT_QUEUE, names.DEFAULT_QUEUE):
        queue = {"apiVersion": kinds.QUEUE.api_version, "kind": "Queue", "metadata": {"name": name}}
        try:
            await client.create(kinds.QUEUE, {**queue, "spec": {"weight": 1}})
        except AlreadyExists:
            continue


async def until_ready(client: Client, nodes: int) -> None:
    """Return once all nodes are ready."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        try:
            found = [node for node in await client.list(kinds.NODE) if isinstance(node, Node) and _is_ready(node)]
        except TransportError:
            found = []
        if len(found) >= nodes:
            return
        await asyncio.sleep(_POLL_SECONDS)
    raise TimeoutError(f"{nodes} hollow nodes were not ready after {START_SECONDS:g} s")


def _is_ready(node: Node) -> bool:
    conditions = any(one.type == "Ready" and one.status == "True" for one in node.status.conditions)
    return conditions and not any(taint.effect == "NoSchedule" for taint in node.spec.taints)


def _written(requests: Sequence[Request], pods: int) -> dict[str, Any]:
    """Return writes per pod: ours by component, and those that do not count."""
    by_user = {user: writes_per_pod(requests, user, pods) for user in COMPONENTS}
    counted = {
        user: {what: rate for what, rate in writes.items() if not any(other in what for other in ASIDE)}
        for user, writes in by_user.items()
    }
    others = sorted({request.user.username for request in requests} - set(COMPONENTS))
    beside = {user: writes_per_pod(requests, user, pods) for user in others}
    return {
        "writes_per_pod": round(sum(sum(writes.values()) for writes in counted.values()), 3),
        "writes_per_pod_by": counted,
        "writes_beside": {user: writes for user, writes in beside.items() if writes},
    }


def run(rows: Sequence[Row], checkouts: Sequence[Checkout], *, keep: Path | None = None) -> dict[str, Any]:
    """Run each row with each checkout in turn. `keep` keeps logs, with the bodies of requests, in that directory."""
    results: dict[str, Any] = {}
    for row in rows:
        for checkout in checkouts:
            directory = keep / f"{row}-{checkout.name}".replace(":", "-") if keep else Path(tempfile.mkdtemp())
            directory.mkdir(parents=True, exist_ok=True)
            try:
                with plane(directory, bodies=keep is not None) as there:
                    figures = asyncio.run(run_row(there, row, checkout))
            finally:
                if keep is None:
                    shutil.rmtree(directory)
            results.setdefault(str(row), {})[checkout.name] = figures
            _report(row, checkout, figures)
    return results


def _report(row: Row, checkout: Checkout, figures: Mapping[str, Any]) -> None:
    running = figures["seconds_submit_to_running"]
    print(
        f"# {row} {checkout.name}: {figures['pods_per_second']} pods/s, "
        f"p50 {running['p50']} s, p99 {running['p99']} s, {figures['writes_per_pod']} writes per pod",
        file=sys.stderr,
    )


def _commit(directory: Path) -> str:
    done = subprocess.run(
        ["git", "-C", str(directory), "describe", "--always", "--dirty", "--abbrev=12"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=False,
    )
    return done.stdout.strip()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the chosen rows and print their figures."""
    parser = argparse.ArgumentParser(prog="python -m bench.real", description=__doc__)
    parser.add_argument("--rows", nargs="+", default=DEFAULT_ROWS, metavar="JOBSxPODS[@NODES][:nogang|:one-by-one]")
    parser.add_argument("--baseline", type=Path, help="another checkout, with its own .venv, to run every row with too")
    parser.add_argument("--keep", type=Path, help="keep logs and the audit log with bodies in this directory")
    parser.add_argument("--output", type=Path, help="write the figures to this file too")
    given = parser.parse_args(arguments)
    try:
        rows = [Row.parse(text) for text in given.rows]
    except RowError as error:
        parser.error(str(error))
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that all processes of a run are stopped
    checkouts = [Checkout("this", ROOT)]
    if given.baseline is not None:
        checkouts.insert(0, Checkout("baseline", given.baseline.absolute()))
        if not checkouts[0].python.exists():
            parser.error(f"--baseline: {checkouts[0].python} does not exist; create the checkout's .venv there")
    figures: dict[str, Any] = {
        "bench": "real",
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "commits": {checkout.name: _commit(checkout.directory) for checkout in checkouts},
        "kubernetes": VERSION,
        "machine": machine(),
        "software": software(),
        "node": NODE,
        "trailing_seconds": TRAILING_SECONDS,
        "rows": run(rows, checkouts, keep=given.keep and given.keep.absolute()),
    }
    text = json.dumps(figures, indent=2)
    print(text)
    if given.output is not None:
        given.output.write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
