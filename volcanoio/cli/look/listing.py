"""The commands that list objects: `jobs`, `queues`, `nodes`, `pods` and `events`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import NamedTuple

from volcanoio.cli.connection import Cluster
from volcanoio.cli.look import tables
from volcanoio.cli.look.following import Selected, batches, following
from volcanoio.cli.look.tables import Cells, Objects, Rows, Table
from volcanoio.cli.output import NO_RESOURCES, TablePrinter, documents
from volcanoio.cli.terminal import UsageError, unknown_name
from volcanoio.compose.journals.live_timeline import belongs_to
from volcanoio.engine.accounting.finished_jobs import owner_of
from volcanoio.kube.decoding import ObjectDecoder
from volcanoio.kube.errors import Forbidden, NotFound
from volcanoio.model import kinds, names
from volcanoio.model.base import ApiObject
from volcanoio.model.batch import Job, JobPhase
from volcanoio.model.core import Event
from volcanoio.model.kinds import Kind

MOST_PODS = 2_000
"""Running pods up to which `jobs` reads them to show their nodes; beyond it only -o wide does."""
_PAUSE = 0.1
"""Seconds over which changes are collected with -w."""
_DOCUMENTS = ("json", "yaml", "name")


class Wanted(NamedTuple):
    """The options that all lists share; `names` are the objects to list, () for all."""

    output: str = "table"
    watch: bool = False
    labels: str = ""
    fields: str = ""
    names: tuple[str, ...] = ()


class _List(NamedTuple):
    """One list: the objects whose rows are printed, what else the rows need, and which of the objects are left out."""

    table: Table
    selected: Selected
    others: tuple[Selected, ...] = ()
    keep: Callable[[ApiObject], bool] = lambda _: True

    def rows(self, objects: Objects, now: datetime) -> Rows:
        """Return the rows of the objects that are kept."""
        kind = self.table.kind
        kept = {key: obj for key, obj in objects[kind].items() if self.keep(obj)}
        return self.table.rows({**objects, kind: kept}, now)


async def list_jobs(cluster: Cluster, wanted: Wanted, *, queue: str = "", phase: str = "", owner: str = "") -> None:
    """Print jobs, all or those in a queue and phase and of an owner."""
    selected = _selected(cluster, kinds.JOB, wanted)
    if phase:
        phase = job_phase("--phase", phase)
    if queue:
        with suppress(Forbidden):
            await cluster.get(kinds.QUEUE, queue)

    def keep(job: ApiObject) -> bool:
        assert isinstance(job, Job)
        is_in = (not queue or job.spec.queue == queue) and (not phase or tables.phase_of(job) == phase)
        return is_in and (not owner or owner_of(job) == owner)

    listing = _List(tables.JOBS, selected, keep=keep)
    if wanted.output in _DOCUMENTS:
        await _print(cluster, listing, wanted, {})
        return
    jobs = await selected.listed(cluster)
    others = []
    if wanted.watch or any(keep(job) and _may_wait(job) for job in jobs.values()):
        others.append(Selected(kinds.POD_GROUP, selected.namespace))
    running = sum(job.status.running for job in jobs.values() if isinstance(job, Job) and keep(job))
    if wanted.output == "wide" or ((running or wanted.watch) and running <= MOST_PODS):
        others.append(Selected(kinds.POD, selected.namespace, labels=names.JOB_NAME, fields="status.phase=Running"))
    elif running:
        print(f"nodes are left out, as more than {MOST_PODS} pods run; -o wide prints them", file=sys.stderr)
    await _print(cluster, listing._replace(others=tuple(others)), wanted, {kinds.JOB: jobs})


def job_phase(option: str, text: str) -> str:
    """Return the phase of jobs that an option names, in any case; raises UsageError."""
    phases = [phase.value for phase in JobPhase]
    found = next((phase for phase in phases if phase.lower() == text.lower()), None)
    if found is None:
        raise UsageError(f"{option}: {unknown_name('phase of jobs', text, phases)}")
    return found


def _may_wait(job: ApiObject) -> bool:
    assert isinstance(job, Job)
    phase = tables.phase_of(job)
    return phase not in tables.ENDED and (phase == JobPhase.PENDING or bool(job.status.pending))


async def list_queues(cluster: Cluster, wanted: Wanted, *, tree: bool = False) -> None:
    """Print queues, as a tree or by name."""
    table = tables.QUEUES._replace(rows=partial(tables.queue_rows, tree=True)) if tree else tables.QUEUES
    listing = _List(table, _selected(cluster, kinds.QUEUE, wanted), (Selected(kinds.NODE),))
    await _print(cluster, listing, wanted, {})


async def list_nodes(cluster: Cluster, wanted: Wanted, *, summary: bool = False) -> None:
    """Print nodes, or one row for all of equal status and size, with what their pods request."""
    pods = Selected(kinds.POD, fields="status.phase!=Succeeded,status.phase!=Failed")
    table = tables.NODE_SUMMARY if summary else tables.NODES
    await _print(cluster, _List(table, _selected(cluster, kinds.NODE, wanted), (pods,)), wanted, {})


async def list_pods(cluster: Cluster, wanted: Wanted, job: str | None) -> None:
    """Print pods, all or those of a job."""
    selected = _selected(cluster, kinds.POD, wanted)
    if job is not None:
        labels = ",".join(filter(None, (f"{names.JOB_NAME}={job}", wanted.labels)))
        selected = selected._replace(labels=labels)
        if cluster.namespace:
            await cluster.get(kinds.JOB, job)  # a misspelled name is an error, a job without pods is not
    await _print(cluster, _List(tables.POD_TABLE, selected), wanted, {})


async def list_events(cluster: Cluster, wanted: Wanted, job: str | None, since: float | None) -> None:
    """Print events, all or those about a job, its PodGroup and its pods; `since` is in seconds before now."""
    is_about = await about_job(cluster, job) if job is not None else lambda _: True
    first = cluster.now() - timedelta(seconds=since) if since is not None else None

    def keep(event: ApiObject) -> bool:
        assert isinstance(event, Event)
        return is_about(event) and (first is None or _is_after(tables.event_time(event), first))

    selected = _selected(cluster, kinds.EVENT, wanted)
    found = await selected.listed(cluster)
    if job is not None and cluster.namespace and not any(map(is_about, found.values())):
        await cluster.get(kinds.JOB, job)
    await _print(cluster, _List(tables.EVENTS, selected, keep=keep), wanted, {kinds.EVENT: found})


async def about_job(cluster: Cluster, job: Job | str) -> Callable[[ApiObject], bool]:
    """Return whether an event is about a job or a job of this name, its PodGroup or its pods."""
    try:
        if isinstance(job, str) and cluster.namespace:
            found = await cluster.client.get(kinds.JOB, job, cluster.namespace)
            assert isinstance(found, Job)
            job = found
    except NotFound:
        pass
    belongs = belongs_to(job)

    def is_about(event: ApiObject) -> bool:
        assert isinstance(event, Event)
        return belongs(event.involved_object.kind, event.involved_object.name)

    return is_about


def _is_after(time: str, first: datetime) -> bool:
    try:
        return datetime.fromisoformat(time) >= first
    except (ValueError, TypeError):  # no time, or one without a zone
        return True


def _selected(cluster: Cluster, kind: Kind, wanted: Wanted) -> Selected:
    return Selected(kind, cluster.namespace if kind.namespaced else "", wanted.labels, wanted.fields)


async def _print(cluster: Cluster, listing: _List, wanted: Wanted, known: Objects) -> None:
    """Print a list, and with -w its changes; `known` are objects that were read already."""
    if wanted.names:
        listing = listing._replace(keep=_named(listing.keep, frozenset(wanted.names)))
    if wanted.output in _DOCUMENTS:
        await _print_documents(cluster, listing, wanted)
        return
    if not cluster.namespace:
        listing = listing._replace(table=listing.table.namespaced)
    objects = dict(known)
    for each in (listing.selected, *listing.others):
        if each.kind not in objects:
            try:
                objects[each.kind] = await each.listed(cluster)
            except Forbidden:
                if each is listing.selected or listing.table.kind is kinds.NODE:
                    raise
    _check_names(listing.table.kind, wanted.names, objects[listing.table.kind].values(), cluster)
    printer = TablePrinter(listing.table.header, output=wanted.output, wide=listing.table.wide)
    now = cluster.now()
    rows = listing.rows(objects, now)
    printer.print(list(rows.values()))
    if not rows:
        print(" ".join(filter(None, (NO_RESOURCES, cluster.place))), file=sys.stderr)
    if wanted.watch:
        readable = [each for each in listing.others if each.kind in objects]
        await _print_changes(cluster, listing._replace(others=tuple(readable)), rows, now, printer.print)


def _named(keep: Callable[[ApiObject], bool], wanted: frozenset[str]) -> Callable[[ApiObject], bool]:
    return lambda obj: obj.metadata.name in wanted and keep(obj)


def _check_names(kind: Kind, wanted: Sequence[str], found: Iterable[ApiObject], cluster: Cluster) -> None:
    """Raise UsageError for a name that no object has."""
    if wanted:
        known = {obj.metadata.name for obj in found}
        if missing := [name for name in wanted if name not in known]:
            raise unknown_name(kind.kind.lower(), missing[0], known, cluster.place if kind.namespaced else "")


async def _print_changes(
    cluster: Cluster, listing: _List, printed: Rows, began: datetime, write: Callable[[list[Cells]], None]
) -> None:
    """Print each row that changes until Ctrl-C. Rows are compared as of one moment, as ages change by themselves."""
    async with following(cluster, listing.selected, *listing.others) as caches:
        async for _ in batches(caches.changes, _PAUSE):
            after = listing.rows(caches.objects, began)
            changed = [key for key, cells in after.items() if printed.get(key) != cells]
            printed = after
            if changed:
                current = listing.rows(caches.objects, cluster.now())
                write([current[key] for key in changed])


async def _print_documents(cluster: Cluster, listing: _List, wanted: Wanted) -> None:
    """Print the objects with all fields; with -w, each changed one again."""
    kind, selected, decoder = listing.table.kind, listing.selected, ObjectDecoder(listing.table.kind)
    items = await cluster.client.list_raw(
        kind, selected.namespace, label_selector=selected.labels, field_selector=selected.fields
    )
    decoded = [decoder.lenient(item) for item in items]
    _check_names(kind, wanted.names, decoded, cluster)
    kept = [item for item, obj in zip(items, decoded, strict=True) if listing.keep(obj)]
    if kept or wanted.output != "name":
        print(documents(kind, kept, wanted.output, is_list=len(wanted.names) != 1), flush=True)
    if not wanted.watch:
        return
    versions = {item["metadata"].get("uid"): item["metadata"].get("resourceVersion") for item in kept}
    async with following(cluster, selected) as caches:
        async for changes in batches(caches.changes, _PAUSE):
            for obj in {each.obj.metadata.key: each.obj for each in changes}.values():
                meta = obj.metadata
                if versions.get(meta.uid) == meta.resource_version or not listing.keep(obj):
                    continue
                try:
                    item = await cluster.client.get_raw(kind, meta.name, meta.namespace)
                except NotFound:
                    continue
                versions[meta.uid] = item["metadata"]["resourceVersion"]
                separator = "---\n" if wanted.output == "yaml" else ""
                print(separator + documents(kind, [item], wanted.output, is_list=False), flush=True)
