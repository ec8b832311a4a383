"""Any traffic: a source writes no faster than it may, and everything held is released."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from volcanoio.kube.event_recorder import Correlator, EventKey, EventSource

BEGIN = 1_800_000_000.0
SOURCES = [EventSource("CronJob", "ns", name, name, "volcano") for name in "ab"]


@examples(60)
@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 40), st.floats(0.0, 400.0)), max_size=120))
def test_no_faster_than_allowed_and_nothing_lost(events: list[tuple[int, int, float]]) -> None:
    correlator, now = Correlator(), BEGIN
    written: list[EventKey] = []
    asked: list[EventKey] = []
    for source, number, wait in events:
        now += wait
        written += correlator.release(now)
        key = correlator.correlate(EventKey(SOURCES[source], "Normal", "Noise", str(number)), now)
        asked.append(key)
        if correlator.admit(key, now):
            written.append(key)
        for each in SOURCES:
            assert sum(key.source == each for key in written) <= 25 + (now - BEGIN) / 300 + 1e-6
    for _ in range(len(events) + 1):
        if (due := correlator.next_release()) is None:
            break
        now = max(now, due) + 1e-3
        written += correlator.release(now)
    assert sorted(written, key=str) == sorted(asked, key=str)
    for each in SOURCES:
        mine = [key for key in asked if key.source == each]
        assert len({key for key in mine if key.message is not None}) <= 9 or any(wait > 100 for _, _, wait in events)
