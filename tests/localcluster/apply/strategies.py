"""Random field sets, and random configurations of a type that is owned in every way."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.contract.gadgets import definition
from volcanoio.localcluster.apiserver.apply import field_sets as fieldset
from volcanoio.localcluster.apiserver.apply.field_sets import FieldSet
from volcanoio.localcluster.apiserver.apply.resource_types import custom_type

GADGET = custom_type(definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"])

_STEPS = st.sampled_from(["f:a", "f:b", 'k:{"name":"x"}', 'v:"y"'])
PATHS = st.lists(_STEPS, min_size=1, max_size=4).map(tuple)


def field_sets() -> st.SearchStrategy[FieldSet]:
    """Sets of up to eight paths."""
    return st.lists(PATHS, max_size=8).map(lambda paths: fieldset.of(*paths))


_WORDS = st.sampled_from(["a", "b", "c"])
_TEXTS = st.dictionaries(_WORDS, _WORDS, max_size=2)


def _optional(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=fields)


_PORTS = st.lists(
    st.builds(
        lambda port, more: {"port": port, **more},
        st.integers(1, 3),
        _optional(host=_WORDS, protocol=st.just("TCP"), options=_optional(a=_WORDS)),
    ),
    min_size=1,  # as in Kubernetes, no manager owns an empty list of items
    max_size=3,
    unique_by=lambda one: one["port"],
)
SPECS = _optional(
    color=_WORDS,
    ports=_PORTS,
    tags=st.lists(_WORDS, unique=True, min_size=1, max_size=3),
    steps=st.lists(_WORDS, max_size=2),
    labels=_TEXTS,
    whole=_TEXTS,
    box=_optional(height=st.integers(1, 2)),
    free=st.sampled_from([{}, {"a": 1}, {"a": {"b": 2}}]),
    inner=_optional(deep=_optional(x=_WORDS, y=_WORDS)),
)
CONFIGS = SPECS.map(lambda spec: {"apiVersion": "v1", "kind": "Gadget", "metadata": {}, "spec": spec})
