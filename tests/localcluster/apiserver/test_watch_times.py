"""When a watch says where it is and when it ends, on an event loop whose time jumps to the next timer."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
import pytest

from tests.localcluster.apiserver.api import CONFIG_MAPS, Api, config_map
from volcanoio.localcluster.apiserver.apimachinery.clock import WallClock
from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.server import ApiServer
from volcanoio.localcluster.apiserver.storage.store import Store


class _Jump(selectors.DefaultSelector):
    """Waits for nothing: what it should have waited is what time has moved on."""

    skipped = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready and timeout:
            self.skipped += timeout
        return ready


class JumpingLoop(asyncio.SelectorEventLoop):
    """An event loop that never sleeps."""

    def __init__(self) -> None:
        self._jump = _Jump()
        super().__init__(self._jump)

    def time(self) -> float:
        return self._jump.skipped


Times = list[tuple[float, str]]


async def watched(query: dict[str, str], during: Callable[[Api], Coroutine[Any, Any, None]] | None = None) -> Times:
    """When each line of a watch came, in seconds, and its type; at the end of the watch `end`."""
    server = ApiServer(Core(Store(), WallClock()))
    found: Times = []
    loop = asyncio.get_running_loop()
    async with server.running():
        api = Api(server)
        start = loop.time()
        writing = asyncio.ensure_future(during(api)) if during else None
        async with api.transport.stream(CONFIG_MAPS, query={"watch": "true", "resourceVersion": "1", **query}) as lines:
            async for batch in lines:
                found += [(round(loop.time() - start), msgspec.json.decode(line)["type"]) for line in batch]
        found.append((round(loop.time() - start), "end"))
        if writing is not None:
            await writing
        return found


def run(query: dict[str, str], during: Callable[[Api], Coroutine[Any, Any, None]] | None = None) -> Times:
    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        return runner.run(watched(query, during))


def of_time(times: Times) -> Times:
    """Without the objects that were there from the beginning."""
    return [one for one in times if one[0] > 0]


def test_a_bookmark_comes_every_minute_and_at_the_end() -> None:
    times = of_time(run({"allowWatchBookmarks": "true", "timeoutSeconds": "150"}))
    assert times == [(60, "BOOKMARK"), (120, "BOOKMARK"), (150, "BOOKMARK"), (150, "end")]


def test_a_client_that_wants_none_gets_none() -> None:
    assert of_time(run({"timeoutSeconds": "150"})) == [(150, "end")]


@pytest.mark.parametrize("seconds", [10, 30, 3600])
def test_a_watch_ends_in_time_while_many_events_are_sent(seconds: int) -> None:
    async def write(api: Api) -> None:
        for number in range(10):
            await asyncio.sleep(seconds / 7)
            await api.made(CONFIG_MAPS, config_map(f"a{number}"))

    times = of_time(run({"timeoutSeconds": str(seconds)}, write))
    assert times[-1] == (seconds, "end")
    assert [type_ for _, type_ in times].count("ADDED") in {6, 7}
