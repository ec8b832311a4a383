"""Durations are Go's, within Go's range."""

from __future__ import annotations

import pytest

from volcanoio.model.times import DurationError, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"), [("0", 0), ("1h1m1s", 3661), (".5s", 0.5), ("2562047h", 9223369200), ("1.5ms", 0.0015)]
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["2562048h", "9" * 400 + "h", "292y", "٣s", "-1s", "", "1" * 5000])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(DurationError) as raised:
        parse_duration(text)
    assert len(str(raised.value)) < 200
