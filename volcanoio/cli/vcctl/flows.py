"""The commands `vcctl jobflow` and `vcctl jobtemplate` (volcano-sh/volcano pkg/cli/{jobflow,jobtemplate})."""

import json
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

from volcanoio.cli.connection import reporting_api_errors
from volcanoio.cli.output import yaml_text
from volcanoio.cli.terminal import CommandError
from volcanoio.cli.vcctl.cobra import format_row
from volcanoio.kube.client import Client
from volcanoio.model import kinds
from volcanoio.model.base import ApiObject, Manifest
from volcanoio.model.flow import JobFlow
from volcanoio.model.kinds import Kind
from volcanoio.model.manifests import ManifestError, read_manifests
from volcanoio.model.printing.ages import since

KINDS: Mapping[str, Kind] = {"jobflow": kinds.JOB_FLOW, "jobtemplate": kinds.JOB_TEMPLATE}
_TITLES = {"jobflow": "jobflow", "jobtemplate": "job template"}
_GAP = 4
_RULE = "---------------------------------"
_ORDER = ("kind", "apiVersion", "metadata", "spec", "status")
"""Fields in the order in which Go's structs have them."""
_META_ORDER = ("name", "generateName", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp")


async def create(client: Client, word: str, file: Path | None) -> None:
    """Create the objects of a file."""

    async def one(manifest: Manifest, namespace: str, name: str) -> None:
        await client.create(KINDS[word], manifest, namespace=namespace)
        print(f"Created {KINDS[word].kind}: {namespace}/{name}")

    await _each_of(word, file, "create", one)


async def delete(client: Client, word: str, namespace: str, name: str, file: Path | None) -> None:
    """Delete one object by name, or the objects of a file."""

    async def one(_: Manifest, namespace: str, name: str) -> None:
        await client.delete(KINDS[word], name, namespace)
        print(f"Deleted {KINDS[word].kind}: {namespace}/{name}")

    if file is not None:
        await _each_of(word, file, "delete", one)
        return
    if not name:
        raise CommandError(f"{_TITLES[word]} name must be specified")
    with reporting_api_errors():
        await one({}, namespace, name)


async def show_all(client: Client, word: str, namespace: str) -> None:
    """Print a table of all objects of a namespace, "" for all namespaces."""
    with reporting_api_errors():
        found = await client.list(KINDS[word], namespace)
    if found:
        _print_table(word, found)
    else:
        print("No resources found")


async def show(client: Client, word: str, namespace: str, name: str) -> None:
    """Print a table of one object."""
    if not name:
        raise CommandError(f"name is mandatory to get the particular {_TITLES[word]} details")
    with reporting_api_errors():
        found = await client.get(KINDS[word], name, namespace)
    _print_table(word, [found])


async def describe(client: Client, word: str, namespace: str, name: str, form: str) -> None:
    """Print one object with every field, or all of a namespace without a name.

    A line of dashes follows each JobTemplate, as in Volcano, and separates JobFlows.
    """
    kind = KINDS[word]
    if form not in ("yaml", "json"):
        raise CommandError(f"Unsupported format: {form}; valid values: yaml, json")
    with reporting_api_errors():
        found = [await client.get_raw(kind, name, namespace)] if name else await client.list_raw(kind, namespace)
    is_template = kind is kinds.JOB_TEMPLATE
    for number, manifest in enumerate(found, start=1):
        whole = _ordered({"apiVersion": kind.api_version, "kind": kind.kind, **manifest})
        print(json.dumps(whole, indent=2) if form == "json" else yaml_text(whole))
        if is_template and form == "yaml":
            print()
        if is_template or number < len(found):
            print(_RULE)


def _ordered(manifest: Manifest) -> Manifest:
    """Return the manifest without managed fields, its fields in Go's order."""
    meta = {key: value for key, value in manifest["metadata"].items() if key != "managedFields"}
    meta = {key: meta[key] for key in (*_META_ORDER, *meta) if key in meta}
    whole = {**manifest, "metadata": meta}
    return {key: whole[key] for key in (*_ORDER, *whole) if key in whole}


async def _each_of(
    word: str, file: Path | None, verb: str, act: Callable[[Manifest, str, str], Awaitable[None]]
) -> None:
    """Apply an operation to each object of a file; the error contains what failed, after the others are processed."""
    kind = KINDS[word]
    if file is None:
        raise CommandError(f"a {kind.kind} is made of a manifest: give --file FILE")
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
            problems.append(f"{verb} {kind.kind} {where}/{name}: {error}")
    if problems:
        raise CommandError(problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]")


def _print_table(word: str, found: list[ApiObject]) -> None:
    header: tuple[str, ...] = ("Name", "Namespace")
    rows: list[tuple[str, ...]] = [(obj.metadata.name, obj.metadata.namespace) for obj in found]
    if word == "jobflow":
        now = datetime.now(UTC)
        header = (*header, "Phase", "Age")
        rows = [
            (*row, _phase(obj), since(obj.metadata.creation_timestamp, now))
            for row, obj in zip(rows, found, strict=True)
        ]
    widths = [max(map(len, column)) + _GAP for column in zip(header, *rows, strict=True)]
    for row in (header, *rows):
        print(format_row(widths, row))


def _phase(obj: ApiObject) -> str:
    return obj.status.state.phase if isinstance(obj, JobFlow) else ""
