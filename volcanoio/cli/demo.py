"""`volcanoio demo`: runs the example jobs on an embedded cluster, live on a terminal, else line by line."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio

from volcanoio.cli.board import Board, Row, Screen, screen_for_stdout
from volcanoio.cli.serving import ending_signals, options_from, started
from volcanoio.cli.terminal import CommandError, ExitCode, UsageError, runnable_command
from volcanoio.compose.local import LocalCluster
from volcanoio.compose.options import LocalOptions
from volcanoio.framework.arguments import pluralize
from volcanoio.framework.events import Event, Observed
from volcanoio.kube.errors import ApiError
from volcanoio.model import kinds
from volcanoio.model.base import Manifest
from volcanoio.model.manifests import ManifestError, read_manifests
from volcanoio.model.packaged import config_path

_REFRESH = 0.1
_CRON_JOB = "CronJob"


def run_demo(*, examples: Path | None, timeout: float, verbose: int, **given: Any) -> int:
    """Run the demo; returns 0 if every job completed, 1 if one did not, 4 on timeout."""
    options = options_from(None, True, 0, verbose, given)
    manifests = _read(examples or config_path("examples"))
    screen = screen_for_stdout()
    try:
        return anyio.run(_demo, options, manifests, timeout, screen)
    except asyncio.CancelledError:  # ended by a signal, in the same way as by Ctrl-C
        raise KeyboardInterrupt from None


def _read(directory: Path) -> list[Manifest]:
    files = sorted(directory.glob("*.yaml")) + sorted(directory.glob("*.yml"))
    if not directory.is_dir():
        raise UsageError(f"--examples: there is no directory {directory}; give a directory of manifests")
    if not files:
        raise UsageError(f"--examples: no .yaml files in {directory}; give a directory of manifests")
    try:
        return [manifest for file in files for manifest in read_manifests(file)]
    except ManifestError as error:
        raise UsageError(error) from None


async def _demo(options: LocalOptions, manifests: list[Manifest], timeout: float, screen: Screen) -> int:  # noqa: ASYNC109 - the user's
    _end_on_signals()
    board = Board()
    began = time.monotonic()
    by_the_clock = [each["metadata"]["name"] for each in manifests if each["kind"] == _CRON_JOB]
    manifests = [each for each in manifests if each["kind"] != _CRON_JOB]
    with screen:
        screen.say(f"starting {pluralize(options.nodes, 'simulated node')}")
        for name in by_the_clock:
            screen.say(f"skipped CronJob {name}: it runs on a schedule")
        async with started(options) as cluster:
            screen.say(f"ready in {time.monotonic() - began:.1f} s; submitting {pluralize(len(manifests), 'object')}")
            async with cluster.observing((kinds.JOB, kinds.POD_GROUP, kinds.POD, kinds.EVENT), _folder(board)):
                await _submit(cluster, manifests)
                expected = sum(1 for each in manifests if each["kind"] in ("Job", "PodGroup"))
                with anyio.move_on_after(timeout):
                    await _watch(board, screen, expected)
            rows = board.rows()
            screen.show(rows)
    return _summary(rows, time.monotonic() - began)


def _end_on_signals() -> None:
    """End the demo on SIGTERM and on a closed terminal as on Ctrl-C, so that everything is cleaned up."""
    task = asyncio.current_task()
    assert task is not None
    for each in ending_signals():
        asyncio.get_running_loop().add_signal_handler(each, task.cancel)


def _folder(board: Board) -> Callable[[tuple[Event, ...]], None]:
    def fold(batch: tuple[Event, ...]) -> None:
        for event in batch:
            if isinstance(event, Observed):
                board.fold(event)

    return fold


async def _submit(cluster: LocalCluster, manifests: list[Manifest]) -> None:
    for manifest in manifests:
        try:
            await cluster.submit(manifest)
        except ApiError as error:
            name = manifest.get("metadata", {}).get("name", "?")
            raise CommandError(f"{manifest['kind']} {name} was refused: {error.message}", ExitCode.REJECTED) from None


async def _watch(board: Board, screen: Screen, expected: int) -> None:
    while True:
        rows = board.rows()
        screen.show(rows)
        if len(rows) >= expected and all(row.finished for row in rows):
            return
        await anyio.sleep(_REFRESH)


def _summary(rows: list[Row], seconds: float) -> int:
    done = [row for row in rows if row.finished and not row.failed_job]
    failed = [row for row in rows if row.failed_job]
    waiting = [row for row in rows if not row.finished]
    pods = sum(row.succeeded for row in rows)
    gangs = pluralize(len(rows), "gang")
    print(f"\n{len(done)} of {gangs} completed, {pluralize(pods, 'pod')} succeeded, in {seconds:.1f} s")
    for row in failed:
        print(f"  {row.name} ended {row.phase}")
    for row in waiting:
        print(f"  {row.name} is still {row.phase}{': ' + row.note if row.note else ''}")
    if not failed and not waiting:
        print(f"Next: `{runnable_command('volcanoio')} up` starts a cluster of your own.")
    return ExitCode.TIMEOUT if waiting else ExitCode.JOB_FAILED if failed else ExitCode.OK
