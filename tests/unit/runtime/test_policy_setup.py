"""From the configuration to policies in order, with arguments; and the indexes they want."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from volcanoio.framework import groups
from volcanoio.framework.arguments import convert
from volcanoio.framework.decisions import Abstain, Decision
from volcanoio.framework.lifecycle import PolicyContext
from volcanoio.model import kinds
from volcanoio.runtime.controller_conf import ConfigurationError, ControllerConfiguration, PolicySetting, parse
from volcanoio.runtime.loading import Candidate, Registry, discover
from volcanoio.runtime.policy_setup import indexes_of, make_policies


class Arguments(msgspec.Struct):
    """What Growing takes."""

    factor: float = 2.0


class Growing:
    """A policy with arguments and an index."""

    name = "growing"
    indexes = (kinds.NODE.resource,)

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self.arguments = convert(arguments, Arguments, self.name)

    async def decide(self, context: PolicyContext) -> Decision:
        return Abstain()


class Broken(Growing):
    name = "broken"
    indexes = ("nods",)

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        if arguments:
            raise OSError("no disk")


def registry() -> Registry:
    return Registry(
        Candidate(groups.LIFECYCLE_POLICIES, policy.name, "test 1", lambda policy=policy: policy)  # type: ignore[misc]  # a default in a lambda
        for policy in (Growing, Broken)
    )


def test_only_enabled_policies_are_made_in_order_with_their_arguments() -> None:
    text = "policies:\n- name: broken\n- name: growing\n  arguments: {factor: 3}\n"
    made = make_policies(parse(text, registry().names(groups.LIFECYCLE_POLICIES)), registry())
    assert [policy.name for policy in made] == ["broken", "growing"]
    assert isinstance(made[1], Growing)
    assert made[1].arguments.factor == 3
    off = ControllerConfiguration((PolicySetting("growing", enabled=False),))
    assert make_policies(off, registry()) == []


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        (PolicySetting("growing", True, {"facter": 1}, 7), 'line 7: growing: unknown argument "facter"; did you mean'),
        (PolicySetting("growing", True, {"factor": "x"}, 7), 'line 7: growing: "factor" takes a number, not the'),
        (PolicySetting("broken", True, {"x": 1}, 7), r'line 7: policy "broken" \(test 1\) cannot be made: OSError'),
    ],
)
def test_arguments_that_do_not_fit_name_the_line(setting: PolicySetting, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        make_policies(ControllerConfiguration((setting,)), registry())


def test_indexes_are_kinds_and_unknown_ones_get_a_suggestion() -> None:
    assert indexes_of([Growing({})]) == (kinds.NODE,)
    with pytest.raises(ConfigurationError, match=r'policy "broken": index "nods" is unknown; did you mean'):
        indexes_of([Broken({})])


def test_without_a_file_what_is_installed_gives_the_declared_policy() -> None:
    installed = discover()
    made = make_policies(parse("", installed.names(groups.LIFECYCLE_POLICIES)), installed)
    assert [policy.name for policy in made] == ["declared"]
