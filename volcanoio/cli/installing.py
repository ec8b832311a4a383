"""`volcanoio install` and `volcanoio uninstall`; what they apply and remove is in `compose.installation`."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypedDict, Unpack

import anyio
import click

from volcanoio.cli.connection import connected, reporting_api_errors
from volcanoio.cli.terminal import CommandError, UsageError
from volcanoio.compose.installation import (
    InstallationError,
    InstallOptions,
    Parts,
    install,
    purge,
    render,
    stored_objects,
    uninstall,
)


class InstallFlags(TypedDict):
    """Flags of `install` that change the manifests."""

    namespace: str
    image: str | None
    replicas: int | None


def run_install(
    kubeconfig: Path | None, *, only_render: bool, skip_crds: bool, only_crds: bool, **given: Unpack[InstallFlags]
) -> None:
    """Apply the manifests, or print them. Raises CommandError."""
    if skip_crds and only_crds:
        raise UsageError("--skip-crds and --only-crds leave nothing to install; give one of them")
    options = _options(**given)
    parts = Parts(definitions=not skip_crds, components=not only_crds)
    if only_render:
        print(render(options, parts), end="")
        return

    async def work() -> None:
        async with connected(kubeconfig) as client:
            with reporting_api_errors():
                await install(client, options, print, parts)

    _run(work)
    if parts.components:
        print(f"installed; `kubectl get pods --namespace {options.namespace}` shows its processes")


def run_uninstall(
    kubeconfig: Path | None, *, namespace: str, purge_crds: bool, assume_yes: bool, timeout: float
) -> None:
    """Remove the installation, and with `purge_crds` the definitions and all their objects. Raises CommandError."""
    options = _options(namespace=namespace, image=None, replicas=None)

    async def work() -> None:
        async with connected(kubeconfig) as client:
            with reporting_api_errors():
                if purge_crds:
                    _confirm(await stored_objects(client), assume_yes=assume_yes)
                with anyio.fail_after(timeout):
                    await uninstall(client, options, print)
                    if purge_crds:
                        await purge(client, print)

    try:
        _run(work)
    except TimeoutError:
        cause = "finalizers of the objects that the last line names, or their pods, keep it waiting"
        raise CommandError(f"not done after {timeout:g} seconds: {cause}; remove these and run it again") from None
    kept = "" if purge_crds else "; definitions and their objects are kept, and --purge-crds removes them"
    print(f"uninstalled; namespace {options.namespace} is kept{kept}")


def _options(**given: Unpack[InstallFlags]) -> InstallOptions:
    try:
        return InstallOptions(**given)
    except InstallationError as error:
        raise UsageError(error) from None


def _run(work: Callable[[], Awaitable[None]]) -> None:
    try:
        anyio.run(work)
    except InstallationError as error:
        raise CommandError(str(error)) from None


def _confirm(counts: dict[str, int], *, assume_yes: bool) -> None:
    """Ask before objects are lost; raises click.Abort, and UsageError without a terminal."""
    stored = ", ".join(f"{count} {name}" for name, count in counts.items() if count) or "no objects"
    print(f"--purge-crds deletes {len(counts)} CustomResourceDefinitions with {stored}; running pods stay")
    if assume_yes:
        return
    if not sys.stdin.isatty():
        raise UsageError("--purge-crds: stdin is no terminal to confirm this at; add --yes if it is meant")
    click.confirm("Delete them?", abort=True)
