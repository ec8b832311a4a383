"""`BackgroundTasks`: tasks that run in the background and end with their owner."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self


class BackgroundTasks:
    """Set of tasks, used as a context manager: leaving it cancels them. Outside it nothing starts."""

    def __init__(self) -> None:
        self._tasks: asyncio.TaskGroup | None = None
        self._running: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._running)

    async def __aenter__(self) -> Self:
        """Prepare for `start`."""
        self._tasks = await asyncio.TaskGroup().__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Cancel all tasks."""
        self.cancel()
        tasks, self._tasks = self._tasks, None
        assert tasks is not None
        await tasks.__aexit__(kind, error, trace)

    def cancel(self) -> None:
        """Cancel the running tasks; others may be started."""
        for task in self._running:
            task.cancel()

    async def finished(self) -> None:
        """Return once no task is running; tasks may start further ones meanwhile."""
        while self._running:
            await asyncio.wait(self._running)

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Start `work` without waiting for it."""
        if self._tasks is None:
            work.close()
            return
        task = self._tasks.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
