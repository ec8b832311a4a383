"""Functions that are sent to pods, and tables of shards: what is refused before anything is submitted."""

from __future__ import annotations

import datetime
import json
import math as mathematics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from volcanoio.client.errors import InvalidJob
from volcanoio.client.shards import MOST_BYTES, PROGRAM, TABLE, Sharded, sharded_job

LIMITS: dict[str, Any] = {"low": 1, "high": [2, 3]}
HANDLE = sys.stdout


def limited(value: int) -> int:
    return int(min(value, max(LIMITS["high"])))


def uses_everything(row: dict[str, Any], *, base: float = mathematics.pi) -> list[object]:
    def inner(value: int) -> int:
        return limited(value)

    day = datetime.date.fromisoformat(row["day"])
    return [inner(row["n"]), mathematics.floor(base), day.year, Path("a").name]


table, index, shard, line, result = 10, 20, 30, 40, 50
"""Names that a program which runs a shard might use itself."""


def adds_names_of_its_module(day: datetime.date) -> list[int]:
    return [table + index + shard + line + result, datetime.date(day.year, 1, 1).year]


def file(number: int) -> int:
    return number + 1


def uses_a_handle(index: int) -> None:
    HANDLE.write(str(index))


async def waits(index: int) -> int:
    return index


def decorated(function: Callable[[int], int]) -> Callable[[int], int]:
    return function


@decorated
def has_a_decorator(index: int) -> int:
    return index


def run_second_shard(plan: Sharded, directory: Path) -> object:
    """Return the result of the program, run by an interpreter that sees nothing of ours."""
    for name, text in plan.data.items():
        (directory / name).write_text(text)
    result = directory / "result"
    subprocess.run(
        [sys.executable, "-I", directory / PROGRAM], env={"VC_TASK_INDEX": "1", "VC_RESULT": str(result)}, check=True
    )
    found: object = json.loads(result.read_text())
    return found


def test_a_function_takes_along_what_it_names(tmp_path: Path) -> None:
    plan = sharded_job(
        uses_everything, {"image": "python"}, rows=[{"day": "2024-01-01", "n": 1}, {"day": "2025-01-01", "n": 9}]
    )
    assert run_second_shard(plan, tmp_path) == [3, 3, 2025, "a"]


def test_the_program_replaces_no_names_of_the_functions_module(tmp_path: Path) -> None:
    plan = sharded_job(adds_names_of_its_module, {"image": "python"}, days=("2024-12-31", "2025-01-01"))
    assert run_second_shard(plan, tmp_path) == [150, 2025]
    assert run_second_shard(sharded_job(file, {"image": "python"}, shards=2), tmp_path) == 2


def test_of_a_datetime_the_day_counts() -> None:
    noon = datetime.datetime(2024, 2, 29, 12, 30, tzinfo=datetime.UTC)
    plan = sharded_job("true", {"image": "busybox"}, days=(noon, "2024-03-01"))
    assert plan.data[TABLE].splitlines() == ["export VC_SHARD=2024-02-29", "export VC_SHARD=2024-03-01"]


def test_a_result_that_is_too_large_fails_the_shard(tmp_path: Path) -> None:
    def large(index: int) -> str:
        return "x" * 5000

    (tmp_path / PROGRAM).write_text(sharded_job(large, {"image": "python"}, shards=1).data[PROGRAM])
    environment = {"VC_TASK_INDEX": "0", "VC_RESULT": str(tmp_path / "result")}
    done = subprocess.run(
        [sys.executable, "-I", tmp_path / PROGRAM], env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (
        1,
        "the result has more than 4000 bytes of JSON; write it to storage and return where it is\n",
    )


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda index: index, "only functions made with def can be sent"),
        (len, "only functions made with def can be sent"),
        (waits, "it must return its result, not await or yield"),
        (has_a_decorator, "it has a decorator"),
        (uses_a_handle, r'it uses "HANDLE" \(\w+\), which cannot be sent; make it inside the function'),
    ],
)
def test_functions_that_cannot_be_sent_are_refused(function: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(InvalidJob, match=message):
        sharded_job(function, {"image": "python"}, shards=2)


def test_variables_of_the_surrounding_function_are_not_sent() -> None:
    factor = 3

    def scaled(index: int) -> int:
        return factor * index

    with pytest.raises(InvalidJob, match="it uses factor of the function around it; pass such values as rows"):
        sharded_job(scaled, {"image": "python"}, shards=2)


def test_a_function_needs_an_image_with_python() -> None:
    with pytest.raises(InvalidJob, match=r"map\(limited\) runs a Python function, so it needs an image with python3"):
        sharded_job(limited, {}, shards=2)


@pytest.mark.parametrize(
    ("division", "message"),
    [
        ({}, r"one of shards=N, days=\(first, last\) and rows"),
        ({"shards": 2, "rows": [1]}, "one of shards=N"),
        ({"shards": 0}, "no shards; give shards=1 or more"),
        ({"rows": []}, "no shards; give shards=1 or more"),
        ({"days": ("2024-01-02", "2024-01-01")}, "2024-01-01 is before 2024-01-02"),
        ({"days": ("yesterday", "2024-01-01")}, "are no days; write them as 2026-01-31"),
        ({"rows": [{"a-b": 1}]}, r'rows\[0\]: "a-b" cannot be a variable'),
        ({"rows": ["one", "two\nlines"]}, r"rows\[1\]: a row has a line break"),
        ({"rows": [{"at": datetime.date(2024, 1, 1)}]}, r"rows\[0\]: .* not JSON serializable; give texts, numbers"),
        ({"rows": ["x" * MOST_BYTES]}, "the table of shards has .* put the rows into storage"),
    ],
)
def test_divisions_that_make_no_shards_are_refused(division: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidJob, match=message):
        sharded_job("true", {"image": "busybox"}, **division)


def test_what_map_decides_itself_cannot_be_given() -> None:
    with pytest.raises(InvalidJob, match=r"map\(\) has no replicas: its command is the first argument"):
        sharded_job("true", {"image": "busybox", "replicas": 3}, shards=2)


def test_shards_are_independent_unless_something_else_is_asked_for() -> None:
    job = sharded_job("true", {"image": "busybox", "name": "n", "plugins": ["svc"]}, rows=["a", "b"]).job
    spec = job["spec"]
    assert (spec["minAvailable"], spec["minSuccess"], spec["tasks"][0]["replicas"]) == (1, 2, 2)
    assert set(spec["plugins"]) == {"env", "svc"}
    gang = sharded_job("true", {"image": "busybox", "min_available": 2}, shards=2)
    assert gang.job["spec"]["minAvailable"] == 2
    assert gang.data == {}  # no table is needed for numbers


def test_ten_thousand_days_and_rows_fit_into_one_table() -> None:
    rows = [{"SYMBOL": f"SYM{number:06}", "YEAR": 2000 + number % 25} for number in range(10_000)]
    plan = sharded_job("true", {"image": "busybox"}, rows=rows)
    assert plan.job["spec"]["tasks"][0]["replicas"] == 10_000
    assert len(plan.data[TABLE].splitlines()) == 10_000
