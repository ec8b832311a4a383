"""A journal written to disk by a whole cluster replays through the pure host to the same decisions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import anyio
import msgspec
import pytest

from volcanoio.bus.journal import Difference, compare_decisions, read_journal
from volcanoio.bus.records import Codec, Decided, EventRecord
from volcanoio.compose.controllers import default_controllers
from volcanoio.compose.local import LocalCluster
from volcanoio.compose.options import LocalOptions
from volcanoio.engine.hosting.host import Host
from volcanoio.framework.decisions import Abstain
from volcanoio.framework.events import Answered, Event
from volcanoio.kube.client import Client
from volcanoio.model import kinds
from volcanoio.model.batch import Job
from volcanoio.model.manifests import read_manifests
from volcanoio.model.packaged import config_path
from volcanoio.runtime.loading.registry import discover


async def record(directory: Path, *examples: str) -> None:
    """Run examples to their end with the journal on."""
    async with LocalCluster(LocalOptions(journal=directory, speed=10)) as local:
        for example in examples:
            for manifest in read_manifests(config_path("examples", example)):
                await local.submit(manifest)
        client = Client(local.transport)
        running = {job.metadata.name for job in await client.list(kinds.JOB)}
        with anyio.fail_after(60):
            async with client.watch(kinds.JOB, "default") as changes:
                async for change in changes:
                    job = change.object
                    if isinstance(job, Job) and job.status.state.phase in ("Completed", "Failed"):
                        running.discard(job.metadata.name)
                    if not running:
                        return


def replay(events: Sequence[Event]) -> list[Decided]:
    """What the pure host decides about these events."""
    codec, host = Codec(), Host(default_controllers(discover()))
    return [
        codec.decided(step.controller, step.key, step.cause, step.stages)
        for event in events
        for step in host.handle(event)  # type: ignore[arg-type]  # the controllers' journal holds their events only
    ]


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Event], list[Decided]]:
    """Events and decisions of a job that restarts, one with secrets, and one that is completed by policy."""
    directory = tmp_path_factory.mktemp("journal")
    examples = sorted(path.name for path in config_path("examples").glob("0[0-4]*.yaml"))
    anyio.run(record, directory, *examples)
    records = list(read_journal(directory / "controllers"))
    events = [entry.event for entry in records if isinstance(entry, EventRecord)]
    return events, [entry for entry in records if isinstance(entry, Decided)]


def test_it_replays_to_the_same_decisions(journal: tuple[list[Event], list[Decided]]) -> None:
    events, decided = journal
    assert len(decided) > 30
    assert str(compare_decisions(decided, replay(events)) or "") == ""


def test_changing_one_event_changes_them(journal: tuple[list[Event], list[Decided]]) -> None:
    """Had the policies abstained where they restarted a job, the replay departs exactly there."""
    events, decided = journal
    position, answer = next(
        (position, event)
        for position, event in enumerate(events)
        if isinstance(event, Answered) and not isinstance(event.decision, Abstain)
    )
    changed = [*events]
    changed[position] = msgspec.structs.replace(answer, decision=Abstain())
    difference = compare_decisions(decided, replay(changed), {event.seq: event for event in events})
    assert isinstance(difference, Difference)
    first = difference.recorded or difference.replayed
    assert first is not None
    assert first.cause >= answer.seq
    assert first.key == answer.key
