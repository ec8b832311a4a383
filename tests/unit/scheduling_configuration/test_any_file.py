"""Whatever a file holds, it is read or refused with places inside it: nothing else is raised."""

from __future__ import annotations

from typing import Any

import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.scenario.scheduling.harness import actions, plugins
from volcanoio.engine.scheduling.config.config_maps import excerpts
from volcanoio.engine.scheduling.config.configuration import SWITCH_DEFAULTS, default_text
from volcanoio.engine.scheduling.config.lint import lint
from volcanoio.engine.scheduling.config.metric_section import without_password

PLUGINS, ACTIONS = plugins(), actions()
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 5), st.floats(allow_nan=False), st.text("ab: {}[]-\n'\"&*#,", max_size=6),
    st.sampled_from(["gang", "allocate", "enqueue, allocate", "drf", "true", "5", "30s", "prometheus"]),
)  # fmt: skip
KEYS = st.sampled_from(
    ["actions", "tiers", "configurations", "metrics", "plugins", "name", "arguments", "type", "tls", "binpack.weight",
     "predicateErrorCacheEnable", *list(SWITCH_DEFAULTS)[:3]]
)  # fmt: skip
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=12
)


def check(text: str) -> None:
    lines = text.splitlines() or [""]
    for finding in lint(text, plugins=PLUGINS, actions=ACTIONS):
        assert 1 <= finding.line <= len(lines) + 1, finding
        assert finding.column >= 1, finding
        assert finding.text, finding
    without_password(text)
    excerpts(text)


@examples(150)
@given(st.dictionaries(KEYS, VALUES, max_size=4))
def test_any_document(document: dict[str, Any]) -> None:
    check(yaml.safe_dump(document))


@examples(150)
@given(at=st.integers(0, 400), length=st.integers(0, 30), instead=st.text("ab: {}[]-\n'\"&*#,\x00é", max_size=6))
def test_any_damage_to_the_default(at: int, length: int, instead: str) -> None:
    text = default_text()
    check(text[:at] + instead + text[at + length :])
