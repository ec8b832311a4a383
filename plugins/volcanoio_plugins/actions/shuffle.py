"""shuffle: evicts running tasks that plugins want to run elsewhere (Volcano: pkg/scheduler/actions/shuffle)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from volcanoio.framework.arguments import convert
from volcanoio.framework.scheduling.session import Session


class ShuffleArguments(msgspec.Struct, frozen=True):
    """None."""


class Shuffle:
    """Asks plugins about all running tasks at once."""

    name = "shuffle"

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        convert(arguments, ShuffleArguments, "action shuffle")

    def run(self, session: Session) -> Iterator[None]:
        """Evict what plugins name."""
        running = session.victims.running()
        yield
        for task in session.victims.shuffled(running):
            job = session.jobs.get(task.job)
            if job is None:
                continue
            statement = session.statement(job)
            statement.evict(task, self.name)
            statement.commit()
            yield
