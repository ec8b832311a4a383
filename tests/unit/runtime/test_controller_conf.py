"""The controllers' configuration: what it means, and what it says about mistakes."""

from __future__ import annotations

import pytest

from volcanoio.runtime.policies.configuration import ConfigurationError, ControllerConfiguration, PolicySetting, parse

KNOWN = ("declared", "oom-retry")


@pytest.mark.parametrize("text", ["", "\n", "# nothing yet\n\n", "policies:\n- name: declared\n"])
def test_without_policies_declared_alone_is_asked(text: str) -> None:
    assert [policy.name for policy in parse(text, KNOWN).policies] == ["declared"]


def test_policies_keep_their_order_switch_and_arguments() -> None:
    text = "policies:\n- name: oom-retry\n  arguments: {factor: 2}\n- name: declared\n  enabled: false\n"
    assert parse(text, KNOWN) == ControllerConfiguration(
        (PolicySetting("oom-retry", True, {"factor": 2}, 2), PolicySetting("declared", False, {}, 4))
    )


def test_an_empty_list_calls_no_policy() -> None:
    assert parse("policies: []", KNOWN).policies == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("policies:\n- name: declard\n", 'line 2, column 9: policy "declard" is unknown; did you mean "declared"?'),
        ("polices: []\n", 'line 1, column 1: key "polices" is unknown in the file; did you mean "policies"?'),
        ("policies:\n- nam: declared\n", 'line 2, column 3: key "nam" is unknown in a policy; did you mean "name"?'),
        ("policies:\n- enabled: true\n", "line 2, column 3: a policy needs a name; write - name: declared"),
        ("policies:\n- name: declared\n  enabled: 'no'\n", "line 3, column 12: enabled must be true or false"),
        ("policies:\n- name: declared\n- name: declared\n", 'line 3, column 9: policy "declared" is given twice'),
        ("policies: declared\n", "line 1, column 11: policies must be a list"),
        ("policies: [\n", "not YAML"),
    ],
)
def test_a_mistake_names_line_rule_and_next_step(text: str, message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse(text, KNOWN)
    assert str(caught.value).startswith("line ")
    assert message in str(caught.value)


def test_all_mistakes_are_reported_together() -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse("policies:\n- name: a\n- name: b\nmore: 1\n", KNOWN)
    assert len(str(caught.value).splitlines()) == 3
