"""shuffle: evicts running tasks that plugins want to run elsewhere (Volcano: pkg/scheduler/actions/shuffle)."""

from collections.abc import Iterator, Mapping
from typing import Any

from volcanoio.framework.arguments import NoArguments, convert
from volcanoio.framework.scheduling.session import Session


class Shuffle:
    """Passes all running tasks to the plugins at once, and evicts those that they select."""

    name = "shuffle"

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        convert(arguments, NoArguments, "action shuffle")

    def run(self, session: Session) -> Iterator[None]:
        """Evict the tasks that plugins select."""
        running = session.victims.running_tasks()
        yield
        for task in session.victims.victim_tasks(running):
            if (job := session.jobs.get(task.job)) is None:
                continue
            statement = session.statement(job)
            statement.evict(task, self.name)
            statement.commit()
            yield
