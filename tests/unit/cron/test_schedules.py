"""Schedules: the grammar, and the times of runs.

`robfig.json` is what robfig/cron v3.0.1 itself said of 320 random schedules: rows of [schedule, from, the next four
runs], null for one that it refuses. Zones whose days begin in a gap are not tested: robfig/cron skips a whole day
there, or runs on a day that does not fit.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from croniter import croniter
from hypothesis import assume, given
from hypothesis import strategies as st

from volcanoio.engine.cron.schedule import (
    FIELD_BOUNDS,
    Bounds,
    Every,
    Fields,
    Schedule,
    ScheduleError,
    TimeZoneError,
    parse,
    zone,
)

RECORDED = json.loads((Path(__file__).parent / "robfig.json").read_text())
MOMENTS = st.integers(1_500_000_000, 1_900_000_000)


def moment(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp())


def runs(schedule: Schedule, start: float, count: int) -> list[int]:
    found: list[int] = []
    while len(found) < count:
        following = schedule.next_after(found[-1] if found else start)
        if following is None:
            break
        found.append(following)
    return found


@pytest.mark.parametrize(("text", "start", "expected"), RECORDED, ids=range(len(RECORDED)))
def test_as_robfig_cron_itself(text: str, start: int, expected: list[int] | None) -> None:
    if expected is None:
        with pytest.raises(ScheduleError):
            parse(text)
    else:
        assert runs(parse(text), start, 4) == expected


def entry(bounds: Bounds) -> st.SearchStrategy[str]:
    """One entry of a list that both grammars read alike.

    To croniter `n/step` is unknown, `*/n` keeps the star, and a weekday range of one day is the whole week.
    """
    number = st.integers(bounds.least, bounds.most)
    span = st.lists(number, min_size=2, max_size=2, unique=True).map(sorted)
    ranges = span.map(lambda ends: f"{ends[0]}-{ends[1]}")
    stepped = st.tuples(span, st.integers(1, 9)).map(lambda given: f"{given[0][0]}-{given[0][1]}/{given[1]}")
    named = st.sampled_from(sorted(bounds.names)) if bounds.names else number.map(str)
    return st.one_of(number.map(str), ranges, stepped, named)


def field(bounds: Bounds) -> st.SearchStrategy[str]:
    return st.one_of(st.just("*"), st.lists(entry(bounds), min_size=1, max_size=3).map(",".join))


@given(st.tuples(*map(field, FIELD_BOUNDS)), MOMENTS)
def test_equals_croniter_for_common_schedules(parts: tuple[str, ...], start: int) -> None:
    """In UTC: croniter treats changes of the clock its own way, and takes a list of all days for a star."""
    text = " ".join(parts)
    schedule = parse(text)
    assert isinstance(schedule, Fields)
    assume(schedule.both or (len(schedule.days) < 31 and len(schedule.weekdays) < 7))
    found = schedule.next_after(start)
    if found is not None:
        assert croniter(text, datetime.fromtimestamp(start, UTC)).get_next(float) == found


@given(st.tuples(*map(field, FIELD_BOUNDS)), MOMENTS, st.integers(0, 40 * 86400))
def test_the_latest_run_is_the_last_of_those_that_come_after_another(
    parts: tuple[str, ...], start: int, length: int
) -> None:
    schedule = parse(" ".join(parts), "Europe/Berlin")
    end = start + length
    latest = schedule.latest(start, end)
    following = schedule.next_after(start if latest is None else latest)
    assert latest is None or start < latest <= end
    assert following is None or following > end


@given(st.tuples(*map(field, FIELD_BOUNDS)), MOMENTS)
def test_run_times_match_the_schedule(parts: tuple[str, ...], start: int) -> None:
    schedule = parse(" ".join(parts), "America/St_Johns")
    assert isinstance(schedule, Fields)
    found = schedule.next_after(start)
    if found is not None:
        shown = datetime.fromtimestamp(found, zone("America/St_Johns"))
        assert (shown.minute in schedule.minutes, shown.hour in schedule.hours, shown.second) == (True, True, 0)


@pytest.mark.parametrize(
    ("text", "start", "expected"),
    [
        ("TZ=Europe/Berlin 30 2 * * *", "2026-03-28T12:00Z", ["2026-03-30T00:30Z"]),  # 02:30 is left out on the 29th
        ("TZ=Europe/Berlin 30 2 * * *", "2026-10-24T12:00Z", ["2026-10-25T00:30Z", "2026-10-25T01:30Z"]),  # twice
        ("TZ=Asia/Beirut 24 17 * * 0", "2022-03-26T12:00Z", ["2022-03-27T14:24Z"]),  # its midnight is left out
        ("TZ=Australia/Lord_Howe @midnight", "2022-04-02T12:00Z", ["2022-04-02T13:00Z", "2022-04-03T13:30Z"]),
        ("@every 90s", "2026-01-01T00:00Z", ["2026-01-01T00:01:30Z", "2026-01-01T00:03Z"]),
        ("0 0 29 2 *", "2025-01-01T00:00Z", ["2028-02-29T00:00Z", "2032-02-29T00:00Z"]),
    ],
)
def test_days_that_are_special(text: str, start: str, expected: list[str]) -> None:
    assert runs(parse(text), moment(start), len(expected)) == [moment(each) for each in expected]


def test_a_day_that_never_comes() -> None:
    assert parse("0 0 30 2 *").next_after(1_700_000_000) is None
    assert parse("0 0 30 2 *").latest(1_700_000_000, 1_700_900_000) is None


def test_every_is_whole_seconds_and_counts_from_the_last_run() -> None:
    assert [parse(f"@every {text}") for text in ("0.3s", "-5m", "2.9s", "1h30m")] == [
        Every(1), Every(1), Every(2), Every(5400)
    ]  # fmt: skip
    assert parse("@every 10s").latest(100, 145) == 140
    assert parse("@every 10s").latest(100, 109) is None


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("", "the schedule is empty"),
        ("* * * *", "expected exactly 5 fields (minute, hour, day of month, month, weekday), found 4"),
        ("60 * * * *", 'minute: "60" is out of bounds; values go from 0 to 59'),
        ("* * * * 7", 'weekday: "7" is out of bounds; values go from 0 to 6'),
        ("*/0 * * * *", 'minute: "*/0" is out of bounds'),
        ("* * * foo *", 'month: "foo" in "foo" is not a whole number or one of jan, feb'),
        ("1-2-3 * * * *", 'minute: "1-2-3" has too many hyphens'),
        ("1/2/3 * * * *", 'minute: "1/2/3" has too many slashes'),
        ("@weeky", 'there is no descriptor "@weeky"; did you mean "@weekly"?'),
        ("@every soon", '"soon" after @every is not a duration'),
        ("TZ=Mars/Olympus 0 * * * *", '"Mars/Olympus" is not in the time zone database'),
        ("TZ=Europe/Berlin", "the schedule is empty"),
        ("9" * 400 + " * * * *", "is out of bounds"),
        ("@every " + "9" * 400 + "h", "after @every is not a duration"),
        ("@every ٣s", "after @every is not a duration"),
        ("1," * 500_000 + "1 * * * *", "longer than 4096 characters"),
    ],
)
def test_errors_are_reported(text: str, reported: str) -> None:
    with pytest.raises(ScheduleError) as raised:
        parse(text)
    assert reported in str(raised.value)


@pytest.mark.parametrize(
    "name", ["Local", "local", "../etc/passwd", "Europe/-x", "a" * 15, "Europe//Berlin", "Nowhere", "a/" * 1000 + "a"]
)
def test_names_that_are_no_time_zone(name: str) -> None:
    with pytest.raises(TimeZoneError):
        zone(name)
