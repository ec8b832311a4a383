"""Manifests are read as Kubernetes reads them, and mistakes are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from volcanoio.model.manifests import ManifestError, load_manifests, read_manifests

HEAD = "apiVersion: v1\nkind: ConfigMap\n"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2024-01-02", "2024-01-02"),
        ("12:30:45", "12:30:45"),
        ("1e3", 1000.0),
        ("0o17", 15),
        ("1e400", "1e400"),
        ("9223372036854775808", 9223372036854775808.0),
        ("=", "="),
        ("42", 42),
        ("-0.5", -0.5),
        ("100m", "100m"),
        ("yes", True),
        ('"*"', "*"),
        ("~", None),
    ],
)
def test_scalars_are_those_of_kubernetes(text: str, value: object) -> None:
    assert load_manifests(f"{HEAD}data: {text}")[0]["data"] == value


def test_an_unquoted_star_is_reported() -> None:
    text = HEAD + "spec:\n  policies:\n  - event: *\n    action: RestartJob\n"
    with pytest.raises(ManifestError, match=r'job\.yaml, line 5, column \d+: .*quote it, as in event: "\*"'):
        load_manifests(text, "job.yaml")


def test_lists_are_unfolded_and_empty_documents_dropped() -> None:
    text = (
        "---\n---\napiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Pod}\n- {apiVersion: v1, kind: Node}\n"
    )
    assert [each["kind"] for each in load_manifests(text)] == ["Pod", "Node"]


@pytest.mark.parametrize("text", ["[1, 2]", "kind: Pod", "just words"])
def test_documents_that_are_no_objects_are_refused(text: str) -> None:
    with pytest.raises(ManifestError, match="needs apiVersion and kind"):
        load_manifests(text)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match=r"cannot read .*missing\.yaml: No such file"):
        read_manifests(tmp_path / "missing.yaml")


@pytest.mark.parametrize("text", ["metadata: [x]", "metadata:", "metadata: x"])
def test_metadata_that_is_no_mapping_is_named(text: str) -> None:
    with pytest.raises(ManifestError, match="document 1: metadata must be a mapping"):
        load_manifests(f"apiVersion: v1\nkind: Pod\n{text}\n")
