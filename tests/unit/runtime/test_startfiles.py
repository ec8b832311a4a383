"""Files that are read at the start only: a later change is said once, in the log and in a metric."""

from __future__ import annotations

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from volcanoio.kube.clock import WallClock
from volcanoio.runtime.loading.reloading import StartupFiles
from volcanoio.runtime.metrics import PrometheusProbe

JOB_PLUGIN = "class Mine(JobPlugin): pass\n"


class Watch:
    def __init__(self, tmp_path: Path) -> None:
        self.controllers, self.plugins = tmp_path / "controllers", tmp_path / "plugins"
        for directory in (self.controllers, self.plugins):
            directory.mkdir()
        (self.controllers / "sweep.py").write_text("a = 1\n")
        (self.plugins / "slots.py").write_text(JOB_PLUGIN)
        (self.plugins / "scorer.py").write_text("class Scorer: pass\n")
        self.files = StartupFiles((self.controllers,), (self.plugins,), clock=WallClock(), probe=PrometheusProbe())

    async def looks(self, times: int = 2) -> list[tuple[str, str]]:
        with capture_logs() as logs:
            for _ in range(times):
                await self.files.look()
        return [(Path(entry["file"]).name, entry.get("what", "again")) for entry in logs]


@pytest.fixture
def watch(tmp_path: Path) -> Watch:
    return Watch(tmp_path)


async def test_a_change_is_reported_once_after_two_equal_reads(watch: Watch) -> None:
    assert await watch.looks() == []
    (watch.controllers / "sweep.py").write_text("a = 2\n")
    assert await watch.looks(1) == []
    assert await watch.looks(1) == [("sweep.py", "changed")]
    assert await watch.looks() == []
    (watch.controllers / "sweep.py").write_text("a = 1\n")
    assert await watch.looks() == [("sweep.py", "again")]


async def test_of_plugins_only_those_of_jobs_are_read_at_the_start(watch: Watch) -> None:
    (watch.plugins / "scorer.py").write_text("class Scorer: changed = True\n")
    (watch.plugins / "more.py").write_text(JOB_PLUGIN)
    (watch.plugins / "slots.py").write_text("class Mine: pass\n")
    assert await watch.looks() == [("more.py", "added"), ("slots.py", "changed")]


async def test_a_removed_file_is_reported_and_an_unreadable_one_is_waited_for(watch: Watch) -> None:
    (watch.controllers / "sweep.py").unlink()
    assert await watch.looks() == [("sweep.py", "removed")]
    watch.controllers.rename(watch.controllers.with_name("elsewhere"))
    assert await watch.looks() == []
