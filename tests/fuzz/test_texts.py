"""Texts of others: a value within bounds, or an error of ours that names the rule."""

from __future__ import annotations

import msgspec
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.fuzz.mutations import QUANTITIES, TEXTS, damaged, mutated, outcome, values
from volcanoio.engine.cron.schedule import ScheduleError, TimeZoneError, parse
from volcanoio.framework.arguments import ArgumentError, parse_annotation
from volcanoio.model import quantity, times
from volcanoio.model.core import Requirement
from volcanoio.model.documents import decode_json, load_all_yaml
from volcanoio.model.manifests import ManifestError, load_manifests
from volcanoio.model.quantity import QuantityError
from volcanoio.model.resources import LARGEST, amount_of, stored_amounts
from volcanoio.model.selectors import satisfied

MANIFEST = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: a, labels: &x {a: "1", b: 2}}
data:
  a: |
    text
  b: [1, 2.5, *x, 2001-01-01, 12:30]
---
kind: List
apiVersion: v1
items:
- kind: Pod
  apiVersion: v1
"""
NOW = 1_700_000_000.0
FIELDS = st.one_of(
    st.sampled_from(
        ("*", "?", "0", "*/5", "1-5/2", "29", "30", "2", "mon-fri", "jan", "60", "-1", "1-", "1/0", "9" * 30)
    ),
    st.text("0123456789*/-,?monjan", max_size=6),
)


@examples(100)
@given(st.one_of(st.sampled_from(QUANTITIES + TEXTS), st.text(max_size=12), damaged("12.5Gi", "1e3", "100m")))
def test_quantities(text: str) -> None:
    for read in (quantity.parse, quantity.value, quantity.milli, quantity.canonical):
        outcome(QuantityError, read, text)
    assert -LARGEST <= stored_amounts({"cpu": text})["cpu"] <= LARGEST
    amount = outcome(QuantityError, amount_of, "memory", text)
    assert isinstance(amount, QuantityError) or -LARGEST <= amount <= LARGEST


@examples(60)
@given(st.one_of(st.sampled_from(TEXTS), damaged("1h30m", "250ms", "2562047h", "2026-01-01T00:00:00Z")))
def test_durations_and_times(text: str) -> None:
    times.positive_duration(text)
    times.epoch_or_none(text)
    seconds = outcome(times.DurationError, times.parse_duration, text)
    assert isinstance(seconds, times.DurationError) or 0 <= seconds <= times.MAX_DURATION


@examples(120)
@given(
    text=st.one_of(
        st.lists(FIELDS, min_size=5, max_size=5).map(" ".join),
        st.sampled_from(TEXTS),
        damaged("*/5 9-17 * * mon-fri", "TZ=Europe/Berlin 30 2 * * *", "@every 1h30m", "@yearly", "0 0 29 2 *"),
    ),
    zone=st.sampled_from(("", "Europe/Berlin", "America/St_Johns", "Local", "../x", "\x00")),
)
def test_schedules(text: str, zone: str) -> None:
    try:
        schedule = parse(text, zone)
    except (ScheduleError, TimeZoneError):
        return
    following = schedule.next_after(NOW)
    assert following is None or following > NOW
    latest = schedule.latest(NOW - 86400 * 400, NOW)
    assert latest is None or latest <= NOW


@examples(60)
@given(
    operator=st.sampled_from(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "", "in")),
    key=st.sampled_from(TEXTS),
    listed=st.lists(st.sampled_from(TEXTS + QUANTITIES), max_size=3),
    value=st.one_of(st.none(), st.sampled_from(TEXTS + QUANTITIES)),
)
def test_selectors(operator: str, key: str, listed: list[str], value: str | None) -> None:
    assert satisfied(Requirement(key=key, operator=operator, values=tuple(listed)), value) in (True, False)


@examples(100)
@given(
    damaged(MANIFEST, "a: &a [*a]", "a: 1\n" * 50, "- - - a", "{a: {b: [c, {d: e}]}}", "%TAG ! tag:x,2000:\n--- !y a")
)
def test_manifests(text: str) -> None:
    outcome(ManifestError, load_manifests, text)
    outcome(yaml.YAMLError, load_all_yaml, text)


@examples(60)
@given(st.one_of(values.map(lambda value: msgspec.json.encode(value).decode()), damaged('{"a": [1, {"b": "c"}]}')))
def test_annotations(text: str) -> None:
    outcome(msgspec.DecodeError, decode_json, text)
    outcome(ArgumentError, parse_annotation, text, "volcanoio.dev/policy", "{factor: 2}")


@examples(60)
@given(mutated({"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}))
def test_json_of_any_shape(document: object) -> None:
    assert decode_json(msgspec.json.encode(document)) == msgspec.json.decode(msgspec.json.encode(document))


UNITS = (
    "9", "a", "1h", "*,", "*/1,", "a/", "[", "- ", "a: {", "&a *a ", "(a+)+", "%", "\x00", "é", "{a: b}\n", ".", "'",
)  # fmt: skip
LENGTHS = (1000, 10_000)


@examples(40)
@given(unit=st.sampled_from(UNITS), count=st.sampled_from(LENGTHS), ending=st.sampled_from(("", "]", "Gi", "s")))
def test_long_texts(unit: str, count: int, ending: str) -> None:
    text = unit * count + ending
    outcome(QuantityError, quantity.parse, text)
    stored_amounts({"cpu": text})
    outcome(times.DurationError, times.parse_duration, text)
    times.epoch_or_none(text)
    outcome((ScheduleError, TimeZoneError), parse, f"{text} * * * *", "Europe/Berlin")
    outcome((ScheduleError, TimeZoneError), parse, "* * * * *", text)
    satisfied(Requirement(key="a", operator="In", values=(text,)), text)
    outcome(ManifestError, load_manifests, text)
    outcome(yaml.YAMLError, load_all_yaml, text)
    outcome(msgspec.DecodeError, decode_json, text)
    outcome(ArgumentError, parse_annotation, text, "volcanoio.dev/policy", "{factor: 2}")
