"""The state and configuration that `simulate`, `why` and `snapshot` work on: from files, or from a cluster."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import anyio
import msgspec

from volcanoio.bus.redaction import redact
from volcanoio.cli.componentflags import SchedulerFlags
from volcanoio.cli.connection import connected, find_kubeconfigs, reporting_api_errors
from volcanoio.cli.terminal import CommandError, ExitCode, UsageError
from volcanoio.compose.live.reading import MissingRightsError, cluster_state, installed_configuration, list_kinds
from volcanoio.compose.live.running_scheduler import (
    RunningScheduler,
    SchedulerUnavailableError,
    scheduler_at,
    scheduler_of,
)
from volcanoio.compose.simulate import SimulateOptions, Simulator, notes
from volcanoio.compose.state_files import State, StateError, read_configuration, read_state
from volcanoio.compose.whatif import WhatIfError
from volcanoio.engine.scheduling.cluster.state import StateOptions
from volcanoio.engine.scheduling.config.configuration import ConfigurationError
from volcanoio.engine.scheduling.config.yaml_nodes import Problem
from volcanoio.engine.scheduling.offline.until import MAX_CYCLES
from volcanoio.framework.arguments import pluralize
from volcanoio.kube.client import Client
from volcanoio.kube.errors import Forbidden, NotFound
from volcanoio.model import kinds
from volcanoio.model.base import Manifest
from volcanoio.model.documents import read_text
from volcanoio.model.kinds import Kind
from volcanoio.model.names import SCHEDULER_NAME
from volcanoio.runtime.loading.mounted_files import MountError
from volcanoio.runtime.loading.registry import PluginError

Item = TypeVar("Item")

Source: TypeAlias = Path | tuple[str, bytes]
"""A file, or the name of something else and its content."""


@asynccontextmanager
async def asking(kubeconfig: Path | None, url: str, lease: str) -> AsyncIterator[RunningScheduler]:
    """Reach the running scheduler, at a URL or in the cluster.

    Raises SchedulerUnavailableError, and CommandError without a cluster.
    """
    if url:
        async with scheduler_at(url) as scheduler:
            yield scheduler
        return
    paths = find_kubeconfigs(kubeconfig)
    async with (
        connected(kubeconfig) as client,
        scheduler_of(client.transport, lease=lease, kubeconfigs=paths) as scheduler,
    ):
        yield scheduler


def live_state(kubeconfig: Path | None, url: str, lease: str) -> tuple[str, bytes]:
    """Return the snapshot of the running scheduler, as a source with its name. Raises CommandError."""

    async def read() -> bytes:
        async with asking(kubeconfig, url, lease) as scheduler:
            return await scheduler.snapshot()

    try:
        return "the running scheduler", anyio.run(read)
    except SchedulerUnavailableError as error:
        raise unavailable(error) from None


def unavailable(error: SchedulerUnavailableError) -> CommandError:
    """Return the error of a command that needs the running scheduler."""
    return CommandError(f"the running scheduler cannot be asked: {error}", ExitCode.UNREACHABLE)


@contextmanager
def _reporting_refusals() -> Iterator[None]:
    """Convert API errors and missing rights to CommandErrors."""
    with reporting_api_errors():
        try:
            yield
        except MissingRightsError as error:
            raise CommandError(str(error), ExitCode.REJECTED) from None


def read_source(
    files: Sequence[Source],
    kubeconfig: Path | None,
    conf: Path | None,
    given: dict[str, Any],
    *,
    compare: Path | None = None,
) -> tuple[Simulator, State]:
    """Read files, or without any a cluster, and print notes to stderr.

    `given` are the scheduler's flags. What the configuration `compare` needs is read, too. Raises CommandError, and the
    errors that `command_errors` converts.
    """
    configuration = text_of(conf)
    options, remarks = options_of(given, files=files, configuration=configuration)

    def reads(simulator: Simulator) -> frozenset[Kind]:
        if compare is None:
            return simulator.reads
        with command_errors(compare):
            other = simulator.with_configuration(text_of(compare))
        print_notes(compare, other.warnings, ())
        return simulator.reads | other.reads

    if files:
        if configuration is None and (in_force := read_configuration(options.files)) is not None:
            options = replace(options, configuration=in_force)
        simulator = Simulator(options)
        state = read_state(options.files, reads(simulator))
        if options.now is None and state.memory is not None:
            simulator.now = state.memory.at  # before another configuration or a submitted Job is given this time
        print_notes(conf, simulator.warnings, (*remarks, *notes(state, options)))
        return simulator, state

    async def read() -> tuple[Simulator, State, list[str]]:
        async with connected(kubeconfig) as client:
            with _reporting_refusals():
                text, source = (configuration, []) if conf is not None else await installed_configuration(client)
                simulator = Simulator(replace(options, configuration=text))
                return simulator, await cluster_state(client, reads(simulator)), source

    simulator, state, source = anyio.run(read)
    print_notes(conf, simulator.warnings, (*remarks, *source, *notes(state, options)))
    return simulator, state


SNAPSHOT_KINDS = (
    kinds.NODE, kinds.POD, kinds.POD_GROUP, kinds.QUEUE, kinds.PRIORITY_CLASS, kinds.NAMESPACE, kinds.RESOURCE_QUOTA,
    kinds.PDB, kinds.PVC, kinds.PV, kinds.STORAGE_CLASS, kinds.CSI_NODE, kinds.CSI_DRIVER, kinds.CSI_CAPACITY,
    kinds.VOLUME_ATTACHMENT, kinds.NATIVE_POD_GROUP, kinds.WORKLOAD, kinds.HYPER_NODE, kinds.NUMATOPOLOGY,
)  # fmt: skip
"""Kinds that our plugins read in any configuration, except ConfigMaps, most of which are others'."""


def run_save(target: Path, kubeconfig: Path | None, *, live: bool, scheduler_url: str) -> int:
    """Write the objects of a cluster that the scheduler reads to a file; returns the exit code. Raises CommandError."""
    if live or scheduler_url:
        _, snapshot = live_state(kubeconfig, scheduler_url, SCHEDULER_NAME)
        return _save(target, [redact(item) for item in msgspec.json.decode(snapshot)["items"]])

    async def read() -> list[Manifest]:
        async with connected(kubeconfig) as client:
            with _reporting_refusals():
                return await _manifests(client, SNAPSHOT_KINDS)

    return _save(target, anyio.run(read))


def _save(target: Path, items: Sequence[Manifest]) -> int:
    write_file(target, msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": items}))
    print(f"{target}: {pluralize(len(items), 'object')}; read it with -f of volcanoio simulate and why", flush=True)
    return ExitCode.OK


def write_file(target: Path, content: bytes) -> None:
    """Write a file; raises CommandError."""
    try:
        target.write_bytes(content)
    except OSError as error:
        raise CommandError(f"{target}: {error.strerror}; give the path of a file that you may write") from None


async def _manifests(client: Client, reads: Iterable[Kind]) -> list[Manifest]:
    """Return the objects of these kinds as manifests, without what must not be kept. Raises MissingRightsError."""
    found = []
    listed = await list_kinds(reads, client.list_raw)
    with suppress(Forbidden, NotFound):
        listed.append((kinds.JOB, await client.list_raw(kinds.JOB)))
    for kind, some in listed:
        for item in some:
            item["metadata"].pop("managedFields", None)
            found.append({"apiVersion": kind.api_version, "kind": kind.kind, **redact(item)})
    return found


def options_of(
    given: dict[str, Any], *, files: Sequence[Source], configuration: str | None
) -> tuple[SimulateOptions, tuple[str, ...]]:
    """Return the options from the command's flags, and notes about flags without effect."""
    flags = SchedulerFlags.take(given)
    options = SimulateOptions(
        files=[_source(path) for path in files],
        configuration=configuration,
        cycles=given.get("cycles") or (MAX_CYCLES if given.get("until") else 1),
        state=StateOptions(
            scheduler_names=frozenset(given["scheduler_name"]),
            agent_schedulers=frozenset(flags.agent_schedulers),
            default_queue=flags.default_queue,
            feature_gates=flags.feature_gates,
            scope=flags.scope,
        ),
        period=flags.period,
        now=_moment(given["now"]),
        ignore_unavailable=given["ignore_unavailable_plugins"],
        plugins_dirs=given["plugins_dir"],
    )
    return options, flags.notes


def print_notes(conf: Path | None, warnings: Iterable[Problem], remarks: Iterable[str]) -> None:
    """Print the warnings about a configuration, and notes, to stderr."""
    for warning in warnings:
        print(f"warning: {conf}: {warning}" if conf else f"warning: {warning}", file=sys.stderr)
    for note in remarks:
        print(f"note: {note}", file=sys.stderr)


def _moment(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise UsageError(f"--now: {text} is not a time; write one as 2026-01-01T00:00:00Z")
    return moment.timestamp()


def _source(source: Source) -> Source:
    return source if isinstance(source, tuple) or str(source) != "-" else ("stdin", sys.stdin.buffer.read())


def text_of(path: Path | None) -> str | None:
    """Return the text of a configuration file, None without one; raises UsageError."""
    return None if path is None else option_text("--conf", path, "a scheduler's configuration")


def option_text(option: str, path: Path, wanted: str) -> str:
    """Return the text of a file that an option names; raises UsageError."""
    try:
        return read_text(path)
    except OSError as error:
        raise UsageError(f"{option} {path}: {error.strerror}; give the path of {wanted}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{option} {path}: not UTF-8 text; give a YAML file") from None


@contextmanager
def command_errors(conf: Path | None) -> Iterator[None]:
    """Convert errors of state, configuration and plugins to CommandErrors."""
    try:
        yield
    except ConfigurationError as error:
        lines = str(error).splitlines()
        text = "\n".join(f"{conf}: {line}" for line in lines) if conf else str(error)
        raise UsageError(text) from None
    except (StateError, WhatIfError, PluginError, MountError) as error:
        raise UsageError(error) from None
