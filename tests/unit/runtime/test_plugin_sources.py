"""Sources: what they say is published, what fails is started again, what is not wanted is cancelled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from structlog.testing import capture_logs

from volcanoio.engine.scheduling.cluster.inputs import Inputs
from volcanoio.engine.scheduling.config.profile import Profile
from volcanoio.framework.events import Event
from volcanoio.framework.scheduling.settings import MetricsSettings, MetricsType
from volcanoio.framework.scheduling.sources import Feed, Source
from volcanoio.framework.scheduling_events import FactsSaid
from volcanoio.runtime.scheduler.plugin_io import SourceHost


class Steps:
    """A clock whose pauses are remembered and over at once."""

    rate = 1.0

    def __init__(self) -> None:
        self.pauses: list[float] = []

    def now(self) -> float:
        return 100.0 + sum(self.pauses)

    def monotonic(self) -> float:
        return sum(self.pauses)

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        await anyio.lowlevel.checkpoint()

    idle = sleep


class Counts:
    """A probe that counts."""

    def __init__(self) -> None:
        self.failures = 0.0

    def count(self, name: str, amount: float = 1.0, **labels: str) -> None:
        assert name == "volcanoio_source_failures_total"
        self.failures += amount

    def gauge(self, name: str, value: float, **labels: str) -> None: ...

    def observe(self, name: str, value: float, times: int = 1, **labels: str) -> None: ...

    def forget(self, name: str, **labels: str) -> None: ...


class Plugin:
    """Has the sources it is given."""

    name = "prices"

    def __init__(self, **sources: Source) -> None:
        self._sources = sources

    def sources(self) -> Mapping[str, Source]:
        return self._sources


class Recorder:
    """A host whose publications are kept; `wait(n)` until there are so many."""

    def __init__(self) -> None:
        self.said: list[FactsSaid] = []
        self.clock, self.probe = Steps(), Counts()
        self.polled: list[MetricsSettings] = []
        self.host = SourceHost(self.publish, clock=self.clock, probe=self.probe, node_metrics=self._metrics)

    def publish(self, events: list[Event]) -> None:
        self.said.extend(event for event in events if isinstance(event, FactsSaid))

    def _metrics(self, settings: MetricsSettings) -> Source:
        async def source(feed: Feed) -> None:
            self.polled.append(settings)
            feed.publish({settings.address: {}}, whole=True)
            await anyio.sleep_forever()

        return source

    async def until(self, number: int) -> None:
        with anyio.fail_after(10):
            while len(self.said) < number:
                await anyio.lowlevel.checkpoint()


def profile(*plugins: Plugin, metrics: MetricsSettings | None = None) -> Profile:
    made = Profile.of([plugins], [])
    return Profile(made.tiers, made.actions, metrics)


async def steady(feed: Feed) -> None:
    feed.publish({"spot": 1})
    await anyio.sleep_forever()


async def test_facts_of_a_source_are_events_with_the_plugins_name() -> None:
    recorder = Recorder()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(recorder.host.run)
        recorder.host.follow(profile(Plugin(market=steady)))
        await recorder.until(1)
        tasks.cancel_scope.cancel()
    assert [(event.source, event.facts) for event in recorder.said] == [("prices/market", {"spot": 1})]


async def test_one_that_fails_is_started_again_after_growing_pauses_and_others_go_on() -> None:
    recorder, runs = Recorder(), 0

    async def moody(feed: Feed) -> None:
        nonlocal runs
        runs += 1
        if runs == 4:
            feed.publish({"run": runs})
        if runs == 6:
            feed.publish({"run": runs})
            await anyio.sleep_forever()
        msg = "no line"
        raise ConnectionError(msg)

    with capture_logs() as logs:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(recorder.host.run)
            recorder.host.follow(profile(Plugin(moody=moody, steady=steady)))
            await recorder.until(3)
            tasks.cancel_scope.cancel()
    assert recorder.clock.pauses == [1.0, 2.0, 4.0, 1.0, 2.0], "after it published facts the back-off starts again"
    assert recorder.probe.failures == 5
    assert {line["reason"] for line in logs} == {"ConnectionError: no line"}


async def test_with_its_plugin_a_source_is_cancelled_and_its_facts_are_taken_back() -> None:
    recorder, ended = Recorder(), anyio.Event()

    async def watched(feed: Feed) -> None:
        try:
            feed.publish({"spot": 1})
            await anyio.sleep_forever()
        finally:
            feed.publish({"spot": 2})
            ended.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(recorder.host.run)
        recorder.host.follow(profile(Plugin(market=watched)))
        await recorder.until(1)
        recorder.host.follow(profile())
        await ended.wait()
        await recorder.until(2)
        tasks.cancel_scope.cancel()
    assert recorder.said[1].whole
    assert recorder.said[1].facts == {}


async def test_a_new_plugin_restarts_its_source_and_unchanged_metrics_continue() -> None:
    recorder = Recorder()
    settings = MetricsSettings(type=MetricsType.PROMETHEUS, address="http://a")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(recorder.host.run)
        recorder.host.follow(profile(Plugin(market=steady), metrics=settings))
        await recorder.until(2)
        same = MetricsSettings(type=MetricsType.PROMETHEUS, address="http://a")
        recorder.host.follow(profile(Plugin(market=steady), metrics=same))
        await recorder.until(3)
        recorder.host.follow(profile(metrics=MetricsSettings(type=MetricsType.PROMETHEUS, address="http://b")))
        await recorder.until(5)
        tasks.cancel_scope.cancel()
    assert [each.address for each in recorder.polled] == ["http://a", "http://b"]
    assert [event.source for event in recorder.said].count("prices/market") == 3, "twice its own facts, then removed"


@pytest.mark.parametrize("whole", [True, False])
def test_the_state_keeps_published_facts(whole: bool) -> None:
    inputs = Inputs()
    assert inputs.observe_facts(FactsSaid(source="s", facts={"a": 1, "b": 2}))
    assert not inputs.observe_facts(FactsSaid(source="s", facts={"a": 1}))
    before = inputs.version("s")
    changes: dict[str, Any] = {"a": 1, "c": 3} if whole else {"b": None, "c": 3}
    assert inputs.observe_facts(FactsSaid(source="s", facts=changes, whole=whole))
    assert dict(inputs.facts("s")) == {"a": 1, "c": 3}
    assert inputs.version("s") != before
    assert dict(inputs.facts("other")) == {}


async def test_a_plugin_whose_sources_raise_runs_without_them() -> None:
    class Broken(Plugin):
        def sources(self) -> Mapping[str, Source]:
            msg = "no list today"
            raise RuntimeError(msg)

    recorder = Recorder()
    with capture_logs() as logs:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(recorder.host.run)
            recorder.host.follow(profile(Broken(), Plugin(market=steady)))
            await recorder.until(1)
            tasks.cancel_scope.cancel()
    assert [event.source for event in recorder.said] == ["prices/market"]
    assert logs[0]["plugin"] == "prices"
