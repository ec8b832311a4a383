"""The fast reader of plain YAML gives what the whole language gives, or steps aside."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from volcanoio.model.manifests import ManifestError, NotPlainError, PlainYaml, load_manifests

_TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")) | st.sampled_from("\n \t#:-'\"{}[]|>"))
_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | _TEXTS
    | st.sampled_from(["1", "yes", "~"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS | st.sampled_from(["a", "b/c.d"]), inner),
    max_leaves=12,
)


def _plain(text: str) -> Any:
    return PlainYaml(yaml.safe_load).read(text)


@given(value=_VALUES, width=st.sampled_from([20, 80, 1000]))
def test_written_documents_are_read_back(value: Any, width: int) -> None:
    text = yaml.safe_dump(value, width=width, allow_unicode=True)
    try:
        found = _plain(text)
    except NotPlainError:
        return
    assert found == value


@given(values=st.lists(st.dictionaries(st.sampled_from(["kind", "apiVersion", "spec"]), _VALUES), min_size=1))
def test_lists_and_streams_are_read_entry_by_entry_as_they_are_as_a_whole(values: list[Any]) -> None:
    objects = [{**value, "kind": "X", "apiVersion": "v1"} for value in values]
    listed = yaml.safe_dump({"apiVersion": "v1", "items": objects, "kind": "List"}, allow_unicode=True)
    streamed = yaml.safe_dump_all(objects, allow_unicode=True)
    flow = yaml.safe_dump_all(objects, allow_unicode=True, default_flow_style=True)
    assert load_manifests(listed) == load_manifests(streamed) == load_manifests(flow)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: b", {"a": "b"}),
        ("a:\n- b\n- c: d\n  e: f\n", {"a": ["b", {"c": "d", "e": "f"}]}),
        ("a:\n  - b\n", {"a": ["b"]}),
        ("a:\nb: ''\n", {"a": None, "b": ""}),
        ("a: 'it''s'\nb: \"\\n\"\n", {"a": "it's", "b": "\n"}),
        ("a: one\n  two\n", {"a": "one two"}),
        ("a: 'one\n  two'\n", {"a": "one two"}),
        ("a: |\n  x\n    y\n\n  z\nb: 1\n", {"a": "x\n  y\n\nz\n", "b": 1}),
        ("a: |-\n  x\n", {"a": "x"}),
        ('f:spec:\n  f:x: {}\n  k:{"a":"b"}: []\n', {"f:spec": {"f:x": {}, 'k:{"a":"b"}': []}}),
        ("a: http://x:80/y\n", {"a": "http://x:80/y"}),
    ],
)
def test_the_plain_form(text: str, value: Any) -> None:
    assert _plain(text) == value == yaml.safe_load(text)


@pytest.mark.parametrize(
    "text",
    [
        "a: &x b", "a: *x", "a: !!str 1", "a: [1]", "a: {b: c}", "a: b # c", "# c\na: b", "a: >\n  b\n", "a: b: c",
        "a: |2\n   b\n", "1: a", "true: a", "a: b\n   c: d\n", "a:\n\n  b: c\n", "a:\tb", "? a", "- - a",
        '"a": b', "a: 'b", 'a: "b', "-", "",
    ],
)  # fmt: skip
def test_other_yaml_is_left_to_the_full_parser(text: str) -> None:
    with pytest.raises(NotPlainError):
        _plain(text)


def test_a_mistake_in_an_entry_is_reported_with_its_position() -> None:
    text = "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Pod\n- apiVersion: v1\n  kind: [\n"
    with pytest.raises(ManifestError, match=r"^state\.yaml, line 8, column 1: "):
        load_manifests(text, "state.yaml")
