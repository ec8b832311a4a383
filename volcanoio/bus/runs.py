"""Runs: a journal's records from one start of its process to the next."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from volcanoio.bus.journal_codec import Codec
from volcanoio.bus.records import Configured, Decided, Opened, PluginSource, Snapshot, Told
from volcanoio.bus.replay import JournalError, read_journal
from volcanoio.framework.events import Event


@dataclass
class Run:
    """What one start of a process learned and decided, in the order of its events.

    `settled` is the seq up to which decisions are complete for certain: a journal that ends while its process decides
    (it was killed, or stopped) may lack decisions about later events, never about earlier ones.
    """

    opened: Opened
    events: list[Event] = field(default_factory=list)
    decided: list[Decided] = field(default_factory=list)
    configured: dict[str, str] = field(default_factory=dict)
    """Configurations in force, name to text."""
    plugins: dict[tuple[str, str], str] = field(default_factory=dict)
    """Where plugins came from, by group and name."""
    settled: int = 0

    @cached_property
    def by_seq(self) -> dict[int, Event]:
        """The events by seq."""
        return {event.seq: event for event in self.events}


def read_runs(directory: Path, codec: Codec | None = None) -> list[Run]:
    """The runs in a journal's directory, oldest first; raises JournalError.

    A segment that goes on must begin where the one before it ended: one that is missing or cut short in the middle of
    a run is an error, at the end of a run it is the mark of a crash.
    """
    runs: list[Run] = []
    deciding = False
    for record in read_journal(directory, codec):
        if isinstance(record, Opened) and (record.starts or not runs):
            if not record.starts:
                msg = f"{directory}: begins in the middle of a run; give the directory with all of its segments"
                raise JournalError(msg)
            runs.append(Run(record))
            deciding = False
            continue
        run = runs[-1]
        match record:
            case Told(event=event):
                if deciding or not run.events:
                    run.settled = run.events[-1].seq if run.events else 0
                deciding = False
                run.events.append(event)
            case Decided():
                deciding = True
                run.decided.append(record)
            case Snapshot(before=before) if run.events and before != run.events[-1].seq + 1:
                msg = f"{directory}: events {run.events[-1].seq + 1} to {before - 1} are missing; restore the segment"
                raise JournalError(msg)
            case Configured(name=name, text=text):
                run.configured[name] = text
            case PluginSource(group=group, name=name, origin=origin):
                run.plugins[group, name] = origin
            case _:
                pass
    return runs
