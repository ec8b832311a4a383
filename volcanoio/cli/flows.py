"""The commands `vcctl jobflow` and `vcctl jobtemplate` (volcano-sh/volcano pkg/cli/{jobflow,jobtemplate})."""

import json
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from pathlib import Path

import yaml

from volcanoio.cli.connection import reporting_api_errors
from volcanoio.cli.terminal import CommandError, fitted_columns
from volcanoio.kube.client import Client
from volcanoio.model import kinds
from volcanoio.model.base import ApiObject, Manifest
from volcanoio.model.flow import JobFlow
from volcanoio.model.kinds import Kind
from volcanoio.model.manifests import ManifestError, read_manifests

KINDS: Mapping[str, Kind] = {"jobflow": kinds.JOB_FLOW, "jobtemplate": kinds.JOB_TEMPLATE}
_UNITS = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))


async def create(client: Client, word: str, file: Path | None) -> None:
    """Create the objects of a file."""

    async def one(manifest: Manifest, namespace: str, name: str) -> None:
        await client.create(KINDS[word], manifest, namespace=namespace)
        print(f"Created {KINDS[word].kind}: {namespace}/{name}")

    await _each_of(word, file, one)


async def delete(client: Client, word: str, namespace: str, name: str, file: Path | None) -> None:
    """Delete one object by name, or the objects of a file."""

    async def one(_: Manifest, namespace: str, name: str) -> None:
        await client.delete(KINDS[word], name, namespace)
        print(f"Deleted {KINDS[word].kind}: {namespace}/{name}")

    if file is not None:
        await _each_of(word, file, one)
        return
    with reporting_api_errors():
        await one({}, namespace, _named(name, "or --file FILE"))


async def show_all(client: Client, word: str, namespace: str) -> None:
    """Print a table of all objects of a namespace, "" for all namespaces."""
    with reporting_api_errors():
        found = await client.list(KINDS[word], namespace)
    _print_table(word, found)


async def show(client: Client, word: str, namespace: str, name: str) -> None:
    """Print a table of one object."""
    with reporting_api_errors():
        found = await client.get(KINDS[word], _named(name), namespace)
    _print_table(word, [found])


async def describe(client: Client, word: str, namespace: str, name: str, form: str) -> None:
    """Print one object with every field, or all of a namespace without a name."""
    kind = KINDS[word]
    with reporting_api_errors():
        found = [await client.get_raw(kind, name, namespace)] if name else await client.list_raw(kind, namespace)
    if not found:
        print("No resources found")
    for number, manifest in enumerate(found):
        if number:
            print("---")
        whole = {"apiVersion": kind.api_version, "kind": kind.kind, **manifest}
        whole["metadata"] = {key: value for key, value in whole["metadata"].items() if key != "managedFields"}
        print(json.dumps(whole, indent=2) if form == "json" else yaml.safe_dump(whole, sort_keys=False).rstrip())


async def _each_of(word: str, file: Path | None, act: Callable[[Manifest, str, str], Awaitable[None]]) -> None:
    """Apply an operation to each object of a file; failures are printed and the others are still processed."""
    kind = KINDS[word]
    if file is None:
        raise CommandError(f"--file: a {kind.kind} is made of a manifest; give --file FILE")
    try:
        manifests = read_manifests(file)
    except ManifestError as error:
        raise CommandError(str(error)) from None
    if not manifests:
        raise CommandError(f"{file}: holds no {kind.kind}; add one (kind: {kind.kind}, apiVersion: {kind.api_version})")
    problems: list[str] = []
    for manifest in manifests:
        meta = manifest.get("metadata") or {}
        where, name = meta.get("namespace") or "default", str(meta.get("name", ""))
        try:
            if (manifest["apiVersion"], manifest["kind"]) != (kind.api_version, kind.kind):
                msg = f"{manifest['kind']} of {manifest['apiVersion']} is not a {kind.kind}; use kubectl for it"
                raise CommandError(msg)
            with reporting_api_errors():
                await act(manifest, where, name)
        except CommandError as error:
            problems.append(f"{where}/{name}: {error}")
    if problems:
        raise CommandError("\n".join(problems))


def _named(name: str, otherwise: str = "") -> str:
    if not name:
        raise CommandError(f"the name cannot be left blank: give --name NAME {otherwise}".rstrip())
    return name


def _print_table(word: str, found: list[ApiObject]) -> None:
    if not found:
        print("No resources found")
        return
    found = sorted(found, key=lambda obj: (obj.metadata.namespace, obj.metadata.name))
    header: tuple[str, ...] = ("Name", "Namespace")
    rows: list[tuple[str, ...]] = [(obj.metadata.name, obj.metadata.namespace) for obj in found]
    if word == "jobflow":
        header = (*header, "Phase", "Age")
        rows = [(*row, _phase(obj), _age(obj)) for row, obj in zip(rows, found, strict=True)]
    print(fitted_columns(header, rows, gap=4))


def _phase(obj: ApiObject) -> str:
    return obj.status.state.phase if isinstance(obj, JobFlow) else ""


def _age(obj: ApiObject) -> str:
    """Return the age of an object in its largest unit."""
    created = obj.metadata.creation_timestamp
    seconds = int(time.time() - datetime.fromisoformat(created).timestamp()) if created else 0
    return next((f"{seconds // size}{unit}" for unit, size in _UNITS if seconds >= size), "0s")
