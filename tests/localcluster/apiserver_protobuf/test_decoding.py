"""Protobuf bodies are read as the JSON that the same client would have sent."""

from __future__ import annotations

import json
import lzma
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.goclient.building import MODULE, NotBuiltError, program
from volcanoio.localcluster.apiserver.protobuf.decoding import MAGIC, UnknownKind, WireError, decode, decode_message
from volcanoio.localcluster.apiserver.protobuf.generate import versions
from volcanoio.localcluster.apiserver.protobuf.table import TARGET
from volcanoio.model.base import Manifest

GOLDEN = MODULE / "golden" / "protobuf.jsonl.xz"
"""Objects of client-go in both forms: `go run ./corpus` wrote them, one of each kind of the commonest groups."""


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nulls(one) for key, one in value.items() if one is not None}
    return [without_nulls(one) for one in value] if isinstance(value, list) else value


def check(lines: Iterable[bytes]) -> int:
    count = 0
    for line in lines:
        pair = json.loads(line)
        wanted = without_nulls(pair["json"])
        assert without_nulls(decode(bytes.fromhex(pair["protobuf"]))) == wanted, wanted["kind"]
        count += 1
    return count


def test_golden_objects_are_equal_in_both_forms() -> None:
    assert check(lzma.decompress(GOLDEN.read_bytes()).splitlines()) > 40


def test_random_objects_of_all_kinds_are_equal_in_both_forms(tmp_path: Path) -> None:
    out = tmp_path / "corpus.jsonl"
    subprocess.run([built("corpus"), out, "42", "2", *versions()], check=True)
    assert check(out.read_bytes().splitlines()) > 100


def test_the_table_is_current(tmp_path: Path) -> None:
    out = tmp_path / "protobuf.json"
    subprocess.run([built("prototable"), out, *versions()], check=True)
    hint = "run python -m volcanoio.localcluster.apiserver.protobuf.generate"
    assert out.read_text() == TARGET.read_text(), hint


def built(package: str) -> Path:
    try:
        return program(package)
    except NotBuiltError as error:
        pytest.skip(f"NOT TESTED with Go's own encoders: {error}")


def field(number: int, content: bytes) -> bytes:
    """A field with a length below 128."""
    return bytes([number << 3 | 2, len(content)]) + content


def body(api_version: str, kind: str, raw: bytes = b"") -> bytes:
    return MAGIC + field(1, field(1, api_version.encode()) + field(2, kind.encode())) + field(2, raw)


def test_zero_values_that_go_writes_are_there() -> None:
    status = decode_message("core.v1.ContainerStatus", b"")
    assert status == {
        "name": "",
        "state": {},
        "lastState": {},
        "ready": False,
        "restartCount": 0,
        "image": "",
        "imageID": "",
    }


def test_a_pointer_keeps_its_zero_and_a_plain_field_drops_it() -> None:
    assert decode_message("apps.v1.DeploymentSpec", b"\x08\x00")["replicas"] == 0
    assert "minReadySeconds" not in decode_message("apps.v1.DeploymentSpec", b"\x28\x00")


def test_options_are_known_under_every_group() -> None:
    options = decode(body("apps/v1", "DeleteOptions", b"\x08\x00" + field(5, b"All")))
    assert options == {"kind": "DeleteOptions", "apiVersion": "apps/v1", "gracePeriodSeconds": 0, "dryRun": ["All"]}


def test_unknown_fields_are_skipped() -> None:
    assert decode(body("v1", "ConfigMap", field(15, b"new") + b"\x78\x05")) == decode(body("v1", "ConfigMap"))


def test_a_custom_resource_has_no_protobuf_form() -> None:
    with pytest.raises(UnknownKind, match="Job"):
        decode(body("batch.volcano.sh/v1alpha1", "Job"))


@given(st.binary(max_size=60))
@example(b"\x0a\xff")
@example(b"\x0a\x02\x08\x01")
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    for kind in ("Pod", "Event", "Secret"):
        try:
            found: Manifest = decode(body("v1", kind, raw))
        except (WireError, msgspec.MsgspecError):
            continue
        assert found["kind"] == kind
        json.dumps(found)
