"""From the configuration to policies in order, with arguments; and the indexes they want."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from volcanoio.framework import entrypoints
from volcanoio.framework.arguments import convert
from volcanoio.framework.decisions import Abstain, Decision
from volcanoio.framework.lifecycle import PolicyContext, PolicyEvent, named_policies
from volcanoio.model import kinds, names
from volcanoio.model.base import ObjectMeta
from volcanoio.model.batch import Job
from volcanoio.runtime.loading.registry import Candidate, Registry, discover
from volcanoio.runtime.policies import policy_set
from volcanoio.runtime.policies.configuration import ConfigurationError, parse
from volcanoio.runtime.policies.policy_set import PolicySet


class Arguments(msgspec.Struct):
    """What Growing takes."""

    factor: float = 2.0


class Growing:
    """A policy with arguments and an index."""

    name = "growing"
    indexes: tuple[str, ...] = (kinds.NODE.resource,)
    job_arguments: tuple[str, ...] = ("factor",)

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self.arguments = convert(arguments, Arguments, self.name)

    async def decide(self, context: PolicyContext) -> Decision:
        return Abstain()


class Broken(Growing):
    name = "broken"
    indexes = ("nods",)
    job_arguments = ()

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        if arguments:
            raise OSError("no disk")


class Listening(Growing):
    """Wants to be asked every so often."""

    name = "listening"
    events: tuple[str, ...] = (PolicyEvent.TICK, "PodFailed")
    every = 30


class Deaf(Growing):
    name = "deaf"
    events = ("PodFaild",)


class Leaving(Growing):
    name = "leaving"

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        raise SystemExit


class Hanging(Growing):
    name = "hanging"

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        while True:
            pass


def registry() -> Registry:
    return Registry(
        Candidate(entrypoints.LIFECYCLE_POLICIES, policy.name, "test 1", lambda policy=policy: policy)  # type: ignore[misc]  # a default in a lambda
        for policy in (Growing, Broken, Listening, Leaving, Hanging, Deaf)
    )


def load(text: str, *, strict: bool = True) -> PolicySet:
    known = registry()
    return PolicySet.load(parse(text, known.names(entrypoints.LIFECYCLE_POLICIES)), known, strict=strict)


def job(policies: str = "", **arguments: str) -> Job:
    marks = {names.POLICIES: policies, **{names.POLICY_ARGUMENTS + name: text for name, text in arguments.items()}}
    return Job(metadata=ObjectMeta(name="j", annotations=marks))


def test_only_enabled_policies_are_made_in_order_with_their_arguments() -> None:
    made = load("policies:\n- name: listening\n- name: growing\n  arguments: {factor: 3}\n").everywhere
    assert [member.name for member in made] == ["listening", "growing"]
    assert isinstance(made[1].policy, Growing)
    assert made[1].policy.arguments.factor == 3
    assert load("policies:\n- name: growing\n  enabled: false\n").everywhere == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{facter: 1}", 'line 2: growing: unknown argument "facter"; did you mean'),
        ("{factor: x}", 'line 2: growing: "factor" takes a number, not the'),
    ],
)
def test_arguments_that_do_not_fit_name_the_line(text: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        load(f"policies:\n- name: growing\n  arguments: {text}\n", strict=False)


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("broken", "{x: 1}", "cannot be made: OSError: no disk"),
        ("broken", "{}", r'policy "broken": index "nods" is unknown; did you mean'),
        ("deaf", "{}", r'policy "deaf": event "PodFaild" is unknown; did you mean "PodFailed"'),
        ("leaving", "{}", "cannot be made: SystemExit"),
    ],
)
def test_a_policy_that_cannot_be_created_is_reported_to_jobs_and_refused_at_a_reload(
    name: str, arguments: str, message: str
) -> None:
    text = f"policies:\n- name: {name}\n  arguments: {arguments}\n- name: growing\n"
    first, second = load(text, strict=False).everywhere
    assert first.policy is None
    assert re.search(message, first.fault)
    assert second.policy is not None
    with pytest.raises(ConfigurationError, match=message):
        load(text)


def test_one_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy_set, "LOAD_LIMIT", 0.05)
    first, second = load("policies:\n- name: hanging\n- name: growing\n", strict=False).everywhere
    assert first.fault == "cannot be loaded: its import or constructor took longer than its limit of 0.05 s"
    assert second.policy is not None


def test_indexes_are_kinds() -> None:
    assert load("policies:\n- name: growing\n").indexes == (kinds.NODE,)


def test_without_a_file_the_declared_policy_runs_inline() -> None:
    installed = discover()
    configuration = parse("", installed.names(entrypoints.LIFECYCLE_POLICIES))
    made = PolicySet.load(configuration, installed, strict=True).everywhere
    assert [(member.name, member.inline) for member in made] == [("declared", True)]


def test_a_job_names_policies_and_gives_the_arguments_that_are_its_to_give() -> None:
    policies = load("policies:\n- name: growing\n  jobs: named\n  arguments: {factor: 3}\n")
    assert policies.everywhere == ()
    for text, factor in (("", 3), ("{factor: 5}", 5), ('{"factor": 1.5}', 1.5)):
        policy = policies.named("growing", text).policy
        assert isinstance(policy, Growing)
        assert policy.arguments.factor == factor


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("growng", "", 'does not exist; did you mean "growing"?'),
        ("listening", "", "is off (enabled: false in the controllers' configuration)"),
        ("growing", "factor", "not a mapping: 'factor'; give one such as {factor: 2}"),
        (
            "growing",
            "{factor: [}",
            "/growing: not YAML: did not find expected node content in line 1, column 11; ",
        ),
        ("growing", "{factor: x}", '/growing: growing: "factor" takes a number'),
        ("growing", "{secret: 1}", 'takes no argument "secret" from a job; jobs may give: factor'),
        ("broken", "{x: 1}", 'takes no argument "x" from a job; jobs may give it no arguments'),
    ],
)
def test_an_invalid_name_in_a_job_is_reported(name: str, arguments: str, message: str) -> None:
    member = load("policies:\n- name: listening\n  enabled: false\n").named(name, arguments)
    assert member.policy is None
    assert message in member.fault


def test_the_roster_contains_the_events_of_each_policy() -> None:
    policies = load("policies:\n- name: listening\n")
    roster = policies.roster({})
    assert roster.wants(job(), PolicyEvent.TICK)
    assert not roster.wants(job(), PolicyEvent.PODS_DUE)
    assert roster.every(job()) == 30
    assert roster.wants(job("growing"), PolicyEvent.PODS_DUE), "it is not known yet, so it is asked"
    known = policies.roster({"growing": policies.named("growing", "")})
    assert not known.wants(job("growing"), PolicyEvent.PODS_DUE)


def test_a_policy_that_does_not_list_ticks_gets_none() -> None:
    class Deaf(Listening):
        events = ("PodFailed",)

    assert PolicySet.of([Deaf({})]).roster({}).every(job()) == 0


def test_names_of_a_job_are_taken_in_order_and_once() -> None:
    assert named_policies(job(" b, a ,b,,")) == ("b", "a")
