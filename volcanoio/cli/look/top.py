"""`volcanoio top`: jobs, queues, nodes and pods live on the whole screen.

Needs Textual (https://textual.textualize.io), the optional extra "tui".
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from subprocess import DEVNULL
from typing import ClassVar, TypeAlias

import anyio
from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import Screen
from textual.widgets import DataTable, Footer, Input, RichLog, Static

from volcanoio.cli.connection import Cluster
from volcanoio.cli.look import tables
from volcanoio.cli.look.describing import job_objects, job_text
from volcanoio.cli.look.following import Following, Selected, batches, following
from volcanoio.cli.look.logs import LogFollower, LogOptions, pods_of, read_log
from volcanoio.cli.look.tables import Cells, Objects, Rows, Table
from volcanoio.cli.output import PHASE_COLOURS, documents, is_terminal
from volcanoio.cli.terminal import CommandError, UsageError, sole_error
from volcanoio.engine.scheduling.cluster.pod_fields import is_native
from volcanoio.kube.errors import ApiError, Forbidden, NotFound, check
from volcanoio.kube.transport import TransportError
from volcanoio.model import kinds, names
from volcanoio.model.batch import Job
from volcanoio.model.core import Node, Pod

MOST_ROWS = 1_000
"""Rows that a table shows; a filter reaches the others."""
_PAUSE = 0.5
"""Seconds over which changes are collected before the table is drawn again."""
_LOG_LINES = 200
"""Lines of each pod with which a log begins."""

Explain: TypeAlias = Callable[[Cluster, str, str], Awaitable[str]]
"""Returns why something waits, by namespace and KIND/NAME."""


async def run_top(cluster: Cluster) -> None:
    """Show the cluster until q or Ctrl-C. Raises CommandError."""
    if not is_terminal():
        raise UsageError("top needs a terminal; elsewhere use: volcanoio jobs -w")
    await Top(cluster, await readable(cluster), explain_waiting).run_async()


async def explain_waiting(cluster: Cluster, namespace: str, name: str) -> str:
    """Return what `volcanoio why KIND/NAME` prints, from a process of its own so that the screen stays live."""
    target = cluster.target
    if target.context or target.as_user:
        return f"--context and --as are not passed on; in another terminal: volcanoio why {name} -n {namespace}"
    words = [sys.executable, "-m", "volcanoio", "why", name, "-n", namespace]
    words += ["--kubeconfig", str(target.kubeconfig)] if target.kubeconfig is not None else []
    done = await anyio.run_process(words, check=False, stdin=DEVNULL)
    return (done.stdout + done.stderr).decode(errors="replace").rstrip()


async def readable(cluster: Cluster) -> list[Selected]:
    """Return what this user may list of what the tables show. Raises Forbidden without a right to list jobs."""
    space, found = cluster.namespace, []
    for each in (
        Selected(kinds.JOB, space),
        Selected(kinds.POD_GROUP, space),
        Selected(kinds.NATIVE_POD_GROUP, space),
        Selected(kinds.POD, space, labels=names.JOB_NAME),
        Selected(kinds.QUEUE),
        Selected(kinds.NODE),
    ):
        path = each.kind.path(each.namespace)
        try:
            check(await cluster.client.transport.request("GET", path, query={"limit": "1"}))
        except (Forbidden, NotFound):
            if each.kind is kinds.JOB:
                raise
        else:
            found.append(each)
    return found


class TextScreen(Screen[None]):
    """Text about one object; Esc goes back."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "app.pop_screen", "Back"),
        Binding("q", "app.quit", "Quit"),
    ]

    def __init__(self, title: str, load: Callable[[], Awaitable[str]]) -> None:
        super().__init__()
        self._title = title
        self._load = load

    def compose(self) -> ComposeResult:
        """Lay the screen out."""
        yield Static(self._title, classes="title")
        with VerticalScroll():
            yield Static("reading …", id="text", markup=False)
        yield Footer()

    def on_mount(self) -> None:
        """Start to load the text."""
        self.run_worker(self._show())

    async def _show(self) -> None:
        text = await _or_error(self._load)
        self.query_one("#text", Static).update(Text.from_ansi(text))
        self.query_one(VerticalScroll).focus()


async def _or_error(load: Callable[[], Awaitable[str]]) -> str:
    try:
        return await load()
    except (ApiError, TransportError, CommandError, BaseExceptionGroup) as error:
        if isinstance(problem := sole_error(error), ApiError | TransportError | CommandError):
            return str(problem)
        raise


class LogScreen(Screen[None]):
    """The log of a job or pod, as it is written; Esc goes back."""

    BINDINGS: ClassVar[list[BindingType]] = TextScreen.BINDINGS

    def __init__(self, title: str, follow: Callable[[Callable[[list[bytes], str], None]], Awaitable[None]]) -> None:
        super().__init__()
        self._title = title
        self._follow = follow

    def compose(self) -> ComposeResult:
        """Lay the screen out."""
        yield Static(self._title, classes="title")
        yield RichLog(max_lines=10_000)
        yield Footer()

    def on_mount(self) -> None:
        """Start to read."""
        self.query_one(RichLog).focus()
        self.run_worker(self._read())

    async def _read(self) -> None:
        log = self.query_one(RichLog)

        def write(batch: list[bytes], prefix: str) -> None:
            for line in batch:
                log.write(Text.from_ansi(f"{prefix}{line.decode(errors='replace')}"))

        async def read() -> str:
            await self._follow(write)
            return "— end of the log —"

        log.write(await _or_error(read))


class TableScreen(Screen[None]):
    """Tables of a cluster that follow its changes. `selected` are the objects to read."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("1", "table(0)", "Jobs"),
        Binding("2", "table(1)", "Queues"),
        Binding("3", "table(2)", "Nodes"),
        Binding("4", "table(3)", "Pods"),
        Binding("5", "table(4)", "PodGroups"),
        Binding("slash", "filter", "Filter"),
        Binding("w", "why", "Why"),
        Binding("l", "logs", "Logs"),
        Binding("d", "describe", "Describe"),
        Binding("enter", "describe", "Describe", show=False),
        Binding("escape", "clear_filter", "Back", show=False),
        Binding("q", "app.quit", "Quit"),
    ]

    def __init__(self, cluster: Cluster, selected: list[Selected], explain: Explain) -> None:
        super().__init__()
        self._cluster = cluster
        self._selected = selected
        self._explain = explain
        self._caches: Following | None = None
        queues = tables.QUEUES._replace(rows=partial(tables.queue_rows, tree=True))
        views = (tables.JOBS, queues, tables.NODES, tables.POD_TABLE, tables.GROUPS)
        self._views = views if cluster.namespace else tuple(each.namespaced for each in views)
        self._view = self._views[0]
        self._filter = ""
        self._rows: Rows = {}

    def compose(self) -> ComposeResult:
        """Lay the screen out."""
        yield Static("reading …", id="summary", markup=False)
        yield DataTable(cursor_type="row", zebra_stripes=True)
        yield Input(id="filter", placeholder="filter", compact=True)
        yield Footer()

    def on_mount(self) -> None:
        """Start to follow the cluster."""
        self._show_columns()
        self.run_worker(self._follow())
        self.set_interval(1.0, self._draw)  # ages

    async def _follow(self) -> None:
        async with following(self._cluster, *self._selected) as caches:
            self._caches = caches
            self._draw()
            async for _ in batches(caches.changes, _PAUSE):
                self._draw()

    @property
    def _objects(self) -> Objects:
        return self._caches.objects if self._caches is not None else {}

    @property
    def _table(self) -> DataTable[Text]:
        return self.query_one(DataTable)

    def _show_columns(self) -> None:
        self._rows = {}
        self._table.clear(columns=True)
        for number, name in enumerate(self._view.header[: len(self._view.header) - self._view.wide]):
            self._table.add_column(name, key=str(number))

    def _draw(self) -> None:
        """Show the current rows: single cells change in place, other rows replace all."""
        if self._caches is None or not (self.is_attached and self.app.is_running):  # a program that ends has no widgets
            return
        rows = dict(self._matching(self._view.rows(self._objects, self._cluster.now())))
        if list(rows) == list(self._rows):
            for key, cells in rows.items():
                for number, (cell, before) in enumerate(zip(cells, self._rows[key], strict=True)):
                    if cell != before and number < len(self._table.columns):
                        self._table.update_cell(key, str(number), _styled(cell), update_width=True)
        else:
            self._replace(rows)
        self._rows = rows
        self.query_one("#summary", Static).update(summary(self._objects, len(rows), self._filter))

    def _matching(self, rows: Rows) -> Iterator[tuple[str, Cells]]:
        """Yield the rows that contain the filter's text, active jobs first, up to the most that are shown."""
        wanted = self._filter.lower()
        found = [key for key, cells in rows.items() if not wanted or wanted in " ".join(cells).lower()]
        if self._view.kind is kinds.JOB:
            ended = {key for key, job in self._objects[kinds.JOB].items() if _has_ended(job)}
            found.sort(key=ended.__contains__)
        for key in found[:MOST_ROWS]:
            yield key, rows[key]

    def _replace(self, rows: Rows) -> None:
        chosen = self._chosen()
        self._table.clear()
        for key, cells in rows.items():
            self._table.add_row(*map(_styled, cells[: len(self._table.columns)]), key=key)
        if chosen in rows:
            self._table.move_cursor(row=list(rows).index(chosen), animate=False)

    def _chosen(self) -> str:
        """Return the key of the row under the cursor, "" without rows."""
        if not self._table.row_count:
            return ""
        return self._table.coordinate_to_cell_key(self._table.cursor_coordinate).row_key.value or ""

    def action_table(self, number: int) -> None:
        """Show another table."""
        self._view = self._views[number]
        self._show_columns()
        self._draw()

    def action_filter(self) -> None:
        """Ask for a text that rows are to contain."""
        field = self.query_one("#filter", Input)
        field.display = True
        field.focus()

    def action_clear_filter(self) -> None:
        """Show all rows again."""
        field = self.query_one("#filter", Input)
        field.value = self._filter = ""
        field.display = False
        self._table.focus()
        self._draw()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter while the user types."""
        self._filter = event.value
        self._draw()

    def on_input_submitted(self) -> None:
        """Keep the filter, and return to the table."""
        self.query_one("#filter", Input).display = False
        self._table.focus()

    async def on_data_table_row_selected(self) -> None:
        """Describe the row on Enter."""
        await self.action_describe()

    async def action_why(self) -> None:
        """Show why the job or PodGroup of the row waits."""
        if (job := self._job()) is not None:
            await self._show_why(job.metadata.key, f"job/{job.metadata.name}")
        elif self._view.kind is kinds.POD_GROUP and (key := self._chosen()):
            _, _, name = key.partition("/")
            await self._show_why(key, name if is_native(key) else f"podgroup/{name}")

    async def _show_why(self, key: str, target: str) -> None:
        load = partial(self._explain, self._cluster, key.partition("/")[0], target)
        await self.app.push_screen(TextScreen(f"why {key}", load))

    async def action_logs(self) -> None:
        """Show the log of the job or pod of the row."""
        pod = self._objects.get(kinds.POD, {}).get(self._chosen()) if self._view.kind is kinds.POD else None
        if isinstance(pod, Pod):
            await self.app.push_screen(LogScreen(f"log of pod {pod.metadata.key}", partial(self._follow_pod, pod)))
        elif (job := self._job()) is not None:
            await self.app.push_screen(LogScreen(f"log of job {job.metadata.key}", partial(self._follow_job, job)))

    async def _follow_pod(self, pod: Pod, write: Callable[[list[bytes], str], None]) -> None:
        async for batch in read_log(self._cluster, pod, LogOptions(follow=True, tail=_LOG_LINES)):
            write(batch, "")

    async def _follow_job(self, job: Job, write: Callable[[list[bytes], str], None]) -> None:
        options = LogOptions(follow=True, tail=_LOG_LINES)
        await LogFollower(self._cluster, job, options, write, with_prefix=True).run(pods_of(job))

    async def action_describe(self) -> None:
        """Show the job of the row in full, or another object as YAML."""
        if key := self._chosen():
            await self.app.push_screen(
                TextScreen(f"{self._view.kind.kind.lower()} {key}", partial(self._describe, self._view, key))
            )

    async def _describe(self, view: Table, key: str) -> str:
        obj = self._objects[view.kind].get(key)
        if isinstance(obj, Job):
            return job_text(obj, await job_objects(self._cluster, obj), self._cluster.now())
        namespace, _, name = key.rpartition("/")
        kind = view.kind
        if is_native(key):
            kind, namespace = kinds.NATIVE_POD_GROUP, key.partition("/")[0]
        item = await self._cluster.client.get_raw(kind, name, namespace)
        return documents(kind, [item], "yaml", is_list=False)

    def _job(self) -> Job | None:
        """Return the job of the row, in the table of pods that of the pod; None in other tables."""
        key = self._chosen()
        if isinstance(pod := self._objects.get(kinds.POD, {}).get(key), Pod) and self._view.kind is kinds.POD:
            key = f"{pod.metadata.namespace}/{pod.metadata.labels.get(names.JOB_NAME, '')}"
        job = self._objects.get(kinds.JOB, {}).get(key) if self._view.kind in (kinds.JOB, kinds.POD) else None
        return job if isinstance(job, Job) else None


class Top(App[None]):
    """The program: its tables, above which the other screens are shown."""

    TITLE = "volcanoio top"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #summary, .title { background: $primary-background; padding: 0 1; height: 1; }
    #filter { display: none; dock: bottom; height: 1; border: none; padding: 0 1; }
    DataTable { height: 1fr; }
    """

    def __init__(self, cluster: Cluster, selected: list[Selected], explain: Explain) -> None:
        super().__init__()
        self.tables = TableScreen(cluster, selected, explain)

    def get_default_screen(self) -> Screen[None]:
        """Return the screen with the tables."""
        return self.tables


def _has_ended(job: object) -> bool:
    return isinstance(job, Job) and tables.phase_of(job) in tables.ENDED


def _styled(cell: str) -> Text:
    text = str.__str__(cell)
    return Text(text, style=PHASE_COLOURS.get(text, ""))


def summary(objects: Objects, shown: int, wanted: str) -> str:
    """Return the line above the tables: jobs by phase, nodes that are ready, and the filter."""
    jobs = [job for job in objects.get(kinds.JOB, {}).values() if isinstance(job, Job)]
    counts = Counter(map(tables.phase_of, jobs))
    nodes = [node for node in objects.get(kinds.NODE, {}).values() if isinstance(node, Node)]
    ready = sum(tables.node_status(node) == "Ready" for node in nodes)
    parts = [
        f"{len(jobs)} jobs: {', '.join(f'{count} {phase}' for phase, count in sorted(counts.items()))}".rstrip(": ")
    ]
    parts += [f"{ready}/{len(nodes)} nodes ready"] if nodes else []
    parts += [f"filter {wanted}: {shown} rows"] if wanted else []
    parts += [f"the first {shown} rows; / filters"] if shown == MOST_ROWS else []
    return "   ".join(parts)
