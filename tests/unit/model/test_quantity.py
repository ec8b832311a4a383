"""Quantities have one text each."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volcanoio.model.quantity import QuantityError, canonical, parse


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("0.1", "100m"),
        ("1000m", "1"),
        ("1500m", "1500m"),
        ("1.5", "1500m"),
        ("1024Mi", "1Gi"),
        ("1.5Gi", "1536Mi"),
        ("0.5Ki", "512"),
        ("1.1Ki", "1126400m"),
        ("125312.5Ki", "128320k"),
        ("1000k", "1M"),
        ("100k", "100k"),
        ("1e6", "1e6"),
        ("15e2", "1500"),
        ("1E3", "1e3"),
        ("-2Gi", "-2Gi"),
        ("0.0001u", "1n"),
        ("0Gi", "0"),
        (2, "2"),
        (0.5, "500m"),
    ],
)
def test_the_text_kubernetes_writes(text: str | float, written: str) -> None:
    assert canonical(text) == written


@given(
    st.integers(-(10**15), 10**15),
    st.integers(0, 3),
    st.sampled_from(("", "m", "k", "M", "G", "Ki", "Mi", "Gi", "e3", "e-3")),
)
def test_the_text_has_the_same_value_and_is_its_own(number: int, digits: int, suffix: str) -> None:
    written = canonical(f"{number / 10**digits:.{digits}f}{suffix}")
    assert canonical(written) == written
    assert abs(parse(written) - parse(f"{number / 10**digits:.{digits}f}{suffix}")) < parse("1n")


@pytest.mark.parametrize(
    "text",
    ["1e999999999", "1e" + "9" * 5000, "1" * 5000, "0." + "0" * 100_000 + "1", "٣", "1e1.5", "", "-", "1Kii", "\ud800"],
)  # fmt: skip
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(QuantityError):
        parse(text)
