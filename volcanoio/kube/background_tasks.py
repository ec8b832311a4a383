"""`BackgroundTasks`: tasks that run beside their starter and end with it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self


class BackgroundTasks:
    """An async context manager that keeps tasks: leaving it cancels what is under way. Outside it nothing starts."""

    def __init__(self) -> None:
        self._tasks: asyncio.TaskGroup | None = None
        self._running: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._running)

    async def __aenter__(self) -> Self:
        """Be ready to start."""
        self._tasks = await asyncio.TaskGroup().__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Cancel everything under way."""
        for task in self._running:
            task.cancel()
        tasks, self._tasks = self._tasks, None
        assert tasks is not None
        await tasks.__aexit__(kind, error, trace)

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` from now on and without waiting."""
        if self._tasks is None:
            work.close()
            return
        task = self._tasks.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
