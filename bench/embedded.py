"""The embedded API server alone: `python -m bench.embedded [--creates 20000] [--objects 100000]`.

The server is a process of its own, as are its clients: 32 keep-alive connections that create pods (bodies of 3 KB),
and watchers of all pods. Clients use prebuilt HTTP requests, so that their cost does not hide the server's. Storage is
memory unless the row's name contains disk. Prints one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.machine import machine, peak_memory, software
from bench.podbody import pod_body
from bench.rawhttp import Connection, Watching
from volcanoio.localcluster.apiserver.apimachinery.request import ApiRequest, ApiResponse
from volcanoio.localcluster.apiserver.server import ApiServer

PODS = "/api/v1/namespaces/default/pods"
CONNECTIONS = 32
OURS = "volcanoio/bench"
"""User agent of our own components, whose managed fields are not recorded."""
CALLERS = 64
"""Concurrent writers of the rows without HTTP: enough to fill a commit."""


async def over_http(directory: Path | None, creates: int, watchers: int, agent: str) -> dict[str, Any]:
    """Measure creates per second, and events per second delivered to `watchers`."""
    program = [sys.executable, "-m", "bench.apiserver", str(directory or "")]
    server = await asyncio.create_subprocess_exec(
        *program, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert server.stdout is not None
    try:
        host, port = json.loads(await server.stdout.readline())
        watching = [await Watching.start(host, port, "/api/v1/pods?watch=true") for _ in range(watchers)]
        connections = [await Connection.open(host, port, agent) for _ in range(CONNECTIONS)]
        names = iter(range(creates))
        started = time.perf_counter()

        async def create(connection: Connection) -> None:
            for number in names:
                status = await connection.post(PODS, pod_body(f"pod-{number}"))
                if status != 201:
                    msg = f"pod-{number} was answered with {status}"
                    raise RuntimeError(msg)

        await asyncio.gather(*(create(one) for one in connections))
        written = time.perf_counter() - started
        await asyncio.gather(*(one.reach(creates) for one in watching))
        delivered = time.perf_counter() - started
        for connection in connections:
            connection.close()
        for watch in watching:
            watch.close()
    finally:
        used, _ = await server.communicate(b"stop\n")
    return {
        "creates_per_second": round(creates / written),
        "events_delivered_per_second": round(creates * watchers / delivered),
        "server_cpu_microseconds_per_create": round(1e6 * json.loads(used)["cpu_seconds"] / creates, 1),
    }


async def in_process(directory: Path | None, creates: int) -> dict[str, Any]:
    """Measure creates per second without HTTP."""
    async with ApiServer.open(directory).running() as server:
        cpu, started = time.process_time(), time.perf_counter()
        await fill(server, creates)
        return {
            "creates_per_second": round(creates / (time.perf_counter() - started)),
            "cpu_microseconds_per_create": round(1e6 * (time.process_time() - cpu) / creates, 1),
        }


async def fill(server: ApiServer, pods: int) -> None:
    """Create pods, CALLERS at a time."""
    names = iter(range(pods))

    async def create() -> None:
        for number in names:
            answer = await server.handle(ApiRequest("POST", PODS, body=pod_body(f"pod-{number}")))
            assert answer.status == 201 if isinstance(answer, ApiResponse) else False

    await asyncio.gather(*(create() for _ in range(CALLERS)))


async def large(directory: Path, objects: int) -> dict[str, Any]:
    """Measure a server with many objects that another process wrote: restart, LIST of all, memory."""
    program = [sys.executable, "-m", "bench.embedded", "--fill", str(directory), "--objects", str(objects)]
    filling = await asyncio.create_subprocess_exec(*program)
    if await filling.wait():
        msg = "the objects could not be written"
        raise RuntimeError(msg)
    started = time.perf_counter()
    reopened = ApiServer.open(directory)
    async with reopened.running():
        restart, memory = time.perf_counter() - started, peak_memory()
        lists = []
        size = 0
        for _ in range(3):
            started = time.perf_counter()
            answer = await reopened.handle(ApiRequest("GET", "/api/v1/pods"))
            lists.append(time.perf_counter() - started)
            size = len(answer.body) if isinstance(answer, ApiResponse) else 0
    return {
        "objects": objects,
        "restart_seconds": round(restart, 2),
        "list_all_seconds": round(min(lists), 3),
        "list_bytes": size,
        "memory_bytes": memory,
        "memory_bytes_after_lists": peak_memory(),
    }


async def written(directory: Path, objects: int) -> None:
    """Write a directory with many pods."""
    async with ApiServer.open(directory).running() as server:
        await fill(server, objects)


PHASES = ("http-0", "http-3", "http-10", "http-3-tracked", "http-3-disk", "in-process", "in-process-disk", "large")


async def measure(phase: str, creates: int, objects: int) -> dict[str, Any]:
    """Measure one phase."""
    with tempfile.TemporaryDirectory(prefix="volcanoio-bench-") as temporary:
        directory = Path(temporary) if phase.endswith("disk") else None
        if phase == "large":
            return await large(Path(temporary), objects)
        if phase.startswith("in-process"):
            return await in_process(directory, creates)
        agent = "somebody/1.0" if phase.endswith("tracked") else OURS
        return await over_http(directory, creates, int(phase.split("-")[1]), agent)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure each phase in a fresh process and print the figures."""
    parser = argparse.ArgumentParser(prog="python -m bench.embedded", description=__doc__)
    parser.add_argument("--creates", type=int, default=20_000)
    parser.add_argument("--objects", type=int, default=100_000, help="pods in the phase large")
    parser.add_argument("--phases", nargs="+", choices=PHASES, default=PHASES)
    parser.add_argument("--only", choices=PHASES, help=argparse.SUPPRESS)
    parser.add_argument("--fill", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.fill:
        asyncio.run(written(given.fill, given.objects))
        return 0
    if given.only:
        print(json.dumps(asyncio.run(measure(given.only, given.creates, given.objects))))
        return 0
    figures: dict[str, Any] = {
        "bench": "embedded",
        "machine": machine(),
        "software": software(),
        "workload": {"creates": given.creates, "body_bytes": len(pod_body("pod-00000")), "connections": CONNECTIONS},
    }
    sizes = ["--creates", str(given.creates), "--objects", str(given.objects)]
    for phase in given.phases:
        program = [sys.executable, "-m", "bench.embedded", "--only", phase, *sizes]
        figures[phase] = json.loads(subprocess.run(program, stdout=subprocess.PIPE, check=True).stdout)
    print(json.dumps(figures, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
