"""What was generated is what the generator writes."""

from __future__ import annotations

import msgspec

from volcanoio.localcluster.apiserver.apimachinery.served_resources import BUILTINS
from volcanoio.localcluster.apiserver.schema import generate_types
from volcanoio.localcluster.apiserver.schema.builtin_types import type_table


def test_the_types_of_builtin_kinds_are_those_of_the_installed_client() -> None:
    written = msgspec.json.decode(generate_types.TARGET.read_bytes())
    hint = "run python -m volcanoio.localcluster.apiserver.schema.generate_types"
    assert written == msgspec.json.decode(msgspec.json.encode(generate_types.table())), hint


def test_every_builtin_kind_that_is_written_has_its_types() -> None:
    table = type_table()
    missing = [one.name for one in BUILTINS if "list" in one.verbs and one.name not in table.resources]
    assert [name for name in missing if not name.endswith("metrics.k8s.io")] == []
    assert set(table.resources.values()) <= set(table.types)
