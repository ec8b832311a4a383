"""Hot reload over real files: a swap takes effect between cycles, and what is wrong never does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from structlog.testing import capture_logs

from tests.scenario.reload.mounts import BAD, MOUNTED, PICKY, PLACES, WAITS, Mount
from tests.scenario.scheduling.harness import actions, group, node, plugins, pod, queue
from tests.unit.runtime.scheduler_rig import Rig
from tests.unit.runtime.virtual_time import VirtualClock, run_until_idle
from volcanoio.framework.scheduling_events import ConfigurationChanged
from volcanoio.runtime.loading.registry import discover
from volcanoio.runtime.loading.reloading import INTERVAL, ConfigurationSource, WatchedConfiguration
from volcanoio.runtime.metrics import PrometheusProbe
from volcanoio.runtime.scheduler.setup import LAST, RELOADS, VALID, PluginCatalog, SchedulerReloader


class Reloading:
    """A scheduler on a rig, and the reloader of its files."""

    def __init__(self, path: Path, plugins_dirs: tuple[Path, ...] = (), more: dict[str, Any] | None = None) -> None:
        self.probe = PrometheusProbe(process=False)
        if plugins_dirs:
            known = PluginCatalog.of(discover(plugins_dirs=plugins_dirs))
        else:
            known = PluginCatalog(plugins=plugins(), actions={**actions(), **(more or {})})
        self.rig = Rig(configuration=path.read_text(), known=known)
        self.files_clock = VirtualClock(5000.0)
        watched = ConfigurationSource(path=path, default="", plugins_dirs=plugins_dirs)
        self.reloader = SchedulerReloader(
            WatchedConfiguration(watched, watched.look()),
            known,
            adopt=self.rig.scheduler.adopt,
            clock=self.files_clock,
            probe=self.probe,
        )

    async def look(self, times: int = 2) -> list[str]:
        """Look that often, then let the scheduler's time pass; what was logged."""
        with capture_logs() as logs:
            for _ in range(times):
                await self.reloader.look()
        await self.rig.clock.advance(2.0)
        return [entry.get("problem", entry["event"]) for entry in logs]

    @property
    def reloads(self) -> tuple[float, float, float]:
        """valid, successes, failures."""
        value = self.probe.value
        return value(VALID), value(RELOADS, result="success"), value(RELOADS, result="failure")


CLUSTER = (queue("default"), node("n1"), node("n2"), group("a", 1), pod("a", "a", cpu="1"))


def _swap(mount: Mount, text: str) -> None:
    mount.write(text)


def _rename_over(mount: Mount, text: str) -> None:
    fresh = mount.directory / "fresh"
    fresh.write_text(text)
    fresh.rename(mount.path)


def _in_place(mount: Mount, text: str) -> None:
    mount.path.write_text(text)


@pytest.mark.parametrize("change", [_swap, _rename_over, _in_place])
async def test_a_change_takes_effect_between_cycles_however_it_is_written(
    tmp_path: Path, change: Callable[[Mount, str], None]
) -> None:
    mount = Mount(tmp_path, "volcano-scheduler.conf", WAITS)
    under = Reloading(mount.path)
    async with under.rig.running(*CLUSTER):
        await under.rig.clock.advance(3.0)
        assert not under.rig.batches
        change(mount, PLACES)
        await under.look()
        assert [batch.group for batch in under.rig.batches] == ["ns/a"]
        assert [event.text for event in under.rig.configurations] == [WAITS, PLACES]
        assert under.reloads == (1.0, 1.0, 0.0)
        assert under.probe.value(LAST) == 5000.0


async def test_half_a_file_takes_no_effect(tmp_path: Path) -> None:
    mount = Mount(tmp_path, "c.conf", WAITS)
    under = Reloading(mount.path)
    async with under.rig.running(*CLUSTER):
        mount.path.write_text('actions: "enqueue, allocate"\n')  # the writer is not done
        await under.look(1)
        mount.path.write_text(PLACES)
        await under.look(2)
        assert [event.text for event in under.rig.configurations] == [WAITS, PLACES]


async def test_a_bad_file_never_takes_effect_and_is_reported_once(tmp_path: Path) -> None:
    mount = Mount(tmp_path, "c.conf", PLACES)
    under = Reloading(mount.path)
    async with under.rig.running(*CLUSTER):
        mount.write(BAD)
        assert await under.look() == ['line 1, column 20: action "alocate" is unknown; did you mean "allocate"?']
        assert await under.look(5) == []
        assert under.reloads == (0.0, 0.0, 1.0)
        assert [batch.group for batch in under.rig.batches] == ["ns/a"], "the last good one works on"
        mount.write("tiers: [")
        assert [problem[:22] for problem in await under.look()] == ["line 1, column 9: not "]
        mount.write(PLACES)
        assert await under.look() == ["the scheduler's configuration was changed back to the one in force"]
        assert under.reloads == (1.0, 0.0, 2.0)
        assert [event.text for event in under.rig.configurations] == [PLACES]


async def test_a_file_that_is_gone_leaves_the_last_good_one(tmp_path: Path) -> None:
    mount = Mount(tmp_path, "c.conf", PLACES)
    under = Reloading(mount.path)
    async with under.rig.running(*CLUSTER):
        mount.path.unlink()
        reported = await under.look(4)
        assert len(reported) == 1
        assert "No such file" in reported[0]
        assert [batch.group for batch in under.rig.batches] == ["ns/a"]


class Remembering:
    """An action that shows its argument."""

    name = "remembering"
    seen: list[int] = []

    def __init__(self, arguments: dict[str, Any]) -> None:
        self.size = arguments.get("size", 1)

    def run(self, session: object) -> Any:
        self.seen.append(self.size)
        yield


async def test_an_argument_that_is_removed_is_its_default_again(tmp_path: Path) -> None:
    bare = 'actions: "enqueue, remembering"\ntiers: []\n'
    mount = Mount(tmp_path, "c.conf", bare + "configurations: [{name: remembering, arguments: {size: 7}}]\n")
    under = Reloading(mount.path, more={"remembering": Remembering})
    Remembering.seen.clear()
    async with under.rig.running(*CLUSTER):
        await under.rig.clock.advance(1.0)
        assert set(Remembering.seen) == {7}
        mount.write(bare)
        await under.look()
        assert Remembering.seen[-1] == 1


async def test_a_mounted_plugin_is_swapped_when_its_file_changes(tmp_path: Path) -> None:
    conf = tmp_path / "c.conf"
    conf.write_text(PICKY)
    directory = tmp_path / "plugins"
    directory.mkdir()
    mount = Mount(directory, "picky.py", MOUNTED.format(wanted="n1"))
    under = Reloading(conf, (directory,))
    async with under.rig.running(*CLUSTER):
        await under.rig.clock.advance(1.0)
        mount.write(MOUNTED.format(wanted="n2"))
        await under.look()
        under.rig.put(group("b", 1), pod("b", "b", cpu="1"))
        await under.rig.clock.advance(1.0)
        assert {bind.name: bind.node for batch in under.rig.batches for bind in batch.binds} == {"a": "n1", "b": "n2"}
        first, second = under.rig.of(ConfigurationChanged)
        assert first.sources == {"picky.py": MOUNTED.format(wanted="n1")}
        assert second.sources == {"picky.py": MOUNTED.format(wanted="n2")}
        assert first.plugins["picky"] != second.plugins["picky"]

        mount.write("class Picky(:\n")
        reported = await under.look()
        assert len(reported) == 1
        assert "picky.py, line 1: cannot be loaded: SyntaxError" in reported[0]
        conf.write_text(PICKY.replace("{name: picky}", "{name: picky, arguments: {fail: true}}"))
        mount.write(MOUNTED.format(wanted="n2"))
        assert await under.look() == [
            (
                "line 2, column 34: picky: its constructor raised RuntimeError: no such model; "
                "fix it, or remove it from the file"
            )
        ]
        under.rig.put(group("c", 1), pod("c", "c", cpu="1"))
        await under.rig.clock.advance(1.0)
        assert under.rig.batches[-1].binds[0].node == "n2", "the old instance works on"


async def test_two_looks_take_less_than_two_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mount = Mount(tmp_path, "c.conf", PLACES)
    under = Reloading(mount.path)
    looks: list[float] = []

    async def look() -> None:
        looks.append(under.files_clock.now())

    monkeypatch.setattr(under.reloader, "look", look)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(under.reloader.run)
        await run_until_idle()
        assert under.reloads == (1.0, 0.0, 0.0)
        await under.files_clock.advance(4.5)
        tasks.cancel_scope.cancel()
    assert looks == [5000.75, 5001.5, 5002.25, 5003.0, 5003.75, 5004.5]
    assert 2 * INTERVAL < 2.0, "content is adopted when two reads in a row return it"
