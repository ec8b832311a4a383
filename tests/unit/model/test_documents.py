"""YAML and JSON from outside: whatever a text holds, it is read within its limits or refused with an error of ours."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
import yaml

from volcanoio.model.documents import Limits, decode_json, load_all_yaml, load_yaml, read_text
from volcanoio.model.manifests import ManifestError, load_manifests

LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (LAUGHS, "line 6, column 8"),
        ("[" * 200_000, "nested deeper than 200 levels"),
        ("- " * 200_000 + "a", "nested deeper than 200 levels"),
        ("? " * 200_000 + "a", "nested deeper than 200 levels"),
        ("&a [*a]", r"alias \*a is inside its own anchor"),
        ("&a {b: {c: *a}}", r"alias \*a is inside its own anchor"),
        ("%TAG !a! b\n" * 200 + "--- a", "more than 100 %TAG lines"),
        ("a: 2001-99-99", "does not fit its type"),
        ("a: !!int x", "does not fit its type"),
        ("a: !!bool x", "does not fit its type"),
        ("a: !!timestamp x", "does not fit its type"),
        ("a: " + "1" * 5000, "does not fit its type"),
        ("a: !!python/object/apply:os.system [id]", "could not determine a constructor"),
        ("a: \ud800", "not text"),
        ("a: \x00", "control characters"),
        ("a" * (5 << 20), "larger than 4 MiB"),
    ],
)
def test_yaml_over_a_limit_is_refused(text: str, problem: str) -> None:
    with pytest.raises(yaml.YAMLError, match=problem):
        load_yaml(text)
    with pytest.raises(yaml.YAMLError, match=problem):
        load_all_yaml(text)


def test_aliases_count_each_time_they_are_expanded() -> None:
    text = "a: &a [1, 2, 3]\nb: &b [*a, *a]\nc: [*b, *b, *b]"
    assert load_yaml(text, limits=Limits(1000, aliased=35))["c"][2] == [[1, 2, 3], [1, 2, 3]]
    with pytest.raises(yaml.YAMLError, match="aliases add more than 34 values"):
        load_yaml(text, limits=Limits(1000, aliased=34))


def test_anchors_end_with_their_document() -> None:
    with pytest.raises(yaml.YAMLError, match="found undefined alias"):
        load_all_yaml("a: &a 1\n---\nb: *a")


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"[" * 201 + b"]" * 201, "nested deeper than 200 levels"),
        (b'{"a":' * 100_000, "nested deeper than 200 levels"),
        (b'{"a":' * 201 + b"1" + b"}" * 201, "nested deeper than 200 levels"),
        (b"[" * 300 + b'"\\"' * 300_000, "nested deeper than 200 levels|malformed|truncated"),
        (b"[" * 300, "truncated"),
        (b'"\xff"', "not text"),
        ("\ud800", "not text"),
        (b"1e999999999", "out of range"),
        (b"1" * 5000, "out of range"),
        (b" " * (5 << 20), "larger than 4 MiB"),
    ],
)
def test_json_over_a_limit_is_refused(data: bytes | str, problem: str) -> None:
    with pytest.raises(msgspec.DecodeError, match=problem):
        decode_json(data)


@pytest.mark.parametrize("data", [b"[" * 200 + b"]" * 200, b"[" + b"[],{}," * 500 + b"1]", b'["' + b"[" * 999 + b'"]'])
def test_flat_json_is_read(data: bytes) -> None:
    assert decode_json(data) == msgspec.json.decode(data)


def test_no_more_of_a_file_is_read_than_its_limit(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"larger than 4 MiB: '/dev/zero'"):
        read_text(Path("/dev/zero"))
    (tmp_path / "ten").write_text("0123456789")
    assert read_text(tmp_path / "ten", Limits(10)) == "0123456789"
    with pytest.raises(OSError, match="larger than 9 bytes"):
        read_text(tmp_path / "ten", Limits(9))


STAIRS = "".join(" " * at + "a:\n" for at in range(1500))


@pytest.mark.parametrize("text", ["[" * 200_000, STAIRS, LAUGHS, "a: &a [*a]"])
def test_manifests_are_limited(text: str) -> None:
    with pytest.raises(ManifestError, match=r"^input, line \d+"):
        load_manifests(text)
