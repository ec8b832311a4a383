"""`volcanoio history` prints what is selected, as a table, sums or JSON; times may be relative."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.unit.accounting.histories import START, finished
from volcanoio.cli.offline.history import moment, run_history
from volcanoio.cli.terminal import UsageError
from volcanoio.engine.accounting.finished_jobs import FinishedJob
from volcanoio.runtime.accounting.history_store import HistoryStore

GIB_HOURS = 3600.0 * 2**30
SELECT_ALL: dict[str, Any] = {
    **dict.fromkeys(("since", "until", "most")), **dict.fromkeys(("namespace", "owner", "queue", "name"), ""),
    "places": False,
}  # fmt: skip


@pytest.fixture
def file(tmp_path: Path) -> Path:
    store = HistoryStore(tmp_path / "history.sqlite")
    jobs = [
        finished("1", requested={"cpu": 7200.0, "memory": 3 * GIB_HOURS, "nvidia.com/gpu": 3600.0},
                 used={"cpu": 1800.0}, measured_seconds=30.0, exit_code=0),
        finished("2", name="train-2", owner="", started=None, finished=START + 500, phase="Failed", exit_code=137,
                 reason="PodFailed", restarts=2),
    ]  # fmt: skip
    store.write(jobs, {}, (), START)
    store.close()
    return tmp_path / "history.sqlite"


def printed(capsys: pytest.CaptureFixture[str], file: Path, **given: object) -> str:
    options: dict[str, Any] = {"by": None, "output": "table", **SELECT_ALL, **given}
    assert run_history(file=file, kubeconfig=None, **options) == 0
    return capsys.readouterr().out


def test_jobs_are_a_table(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    assert printed(capsys, file) == (
        "NAMESPACE  NAME     OWNER  QUEUE  PHASE      EXIT  PODS  WAIT   RUN   CPU-H   USED  FINISHED\n"
        "ml         train-1  ann    gold   Completed  0     1     10s    1m0s  2       0.5   2026-01-01T00:01:10Z\n"
        "ml         train-2  -      gold   Failed     137   1     8m20s  -     0.0333  -     2026-01-01T00:08:20Z\n"
    )


def test_wide_has_other_resources_and_the_measured_share(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    first, second = printed(capsys, file, output="wide").splitlines()[1:]
    assert first.split()[-6:] == ["3", "-", "nvidia.com/gpu=1", "50%", "0", "-"]
    assert second.split()[-6:] == ["-", "-", "-", "0%", "2", "PodFailed"]


def test_sums_by_user(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    assert printed(capsys, file, by="user") == (
        "USER     JOBS  COMPLETED  FAILED  PODS  WAIT-P50  WAIT-P90  RUN-P50  CPU-H   USED  UNUSED\n"
        "ann      1     1          0       1     10s       10s       1m0s     2       0.5   50%\n"
        "unknown  1     0          1       1     8m20s     8m20s     -        0.0333  -     -\n"
    )


def test_json_has_everything_and_can_be_selected(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    (job,) = msgspec.json.decode(printed(capsys, file, output="json", owner="ann"))
    assert (job["uid"], job["used"], job["measuredSeconds"]) == ("1", {"cpu": 1800.0}, 30.0)
    (group,) = msgspec.json.decode(printed(capsys, file, output="json", by="job"))
    assert (group["group"], group["unused"]) == ("ml/train-*", {"cpu": 0.5})
    assert printed(capsys, file, queue="silver") == "no job has finished in that time\n"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("7d", START - 7 * 86400), ("1d12h", START - 1.5 * 86400), ("90m", START - 5400), ("2026-01-01T00:00:00Z", START),
     ("2026-01-01", START), (None, None)],
)  # fmt: skip
def test_times_are_absolute_or_ago(text: str | None, seconds: float | None) -> None:
    assert moment("--since", text, START) == seconds


@pytest.mark.parametrize("text", ["7x", "yesterday", "7d7x", ""])
def test_other_times_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"--since: .* is no time; write how long ago, as 7d or 36h, or 2026-01-01"):
        moment("--since", text, START)


def test_places_are_for_programs(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    jobs = msgspec.json.decode(printed(capsys, file, output="json", places=True), type=list[FinishedJob])
    assert [job.uid for job in jobs] == ["1", "2"]
    with pytest.raises(UsageError, match="--places: a table has no room for them"):
        printed(capsys, file, places=True)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nothing.sqlite: there is no such file"):
        run_history(file=tmp_path / "nothing.sqlite", kubeconfig=None, by=None, output="table", **SELECT_ALL)
