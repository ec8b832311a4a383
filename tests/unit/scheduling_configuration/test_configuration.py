"""The configuration file: what is accepted, and that everything else names line, rule and advice."""

from __future__ import annotations

import pytest

from volcanoio.engine.scheduling.config.configuration import (
    SWITCH_DEFAULTS,
    Configuration,
    ConfigurationError,
    default_configuration,
    parse,
)
from volcanoio.framework.scheduling.settings import ElasticsearchSettings, MetricsSettings, MetricsType

ACTIONS = ("enqueue", "allocate", "backfill")
PLUGINS = ("priority", "gang", "conformance", "overcommit", "drf", "predicates", "proportion", "nodeorder", "binpack")


def parsed(text: str) -> Configuration:
    return parse(text, actions=ACTIONS, plugins=PLUGINS)


def problems(text: str) -> list[str]:
    with pytest.raises(ConfigurationError) as caught:
        parsed(text)
    return [str(problem) for problem in caught.value.problems]


def test_the_default_is_volcanos_helm_default() -> None:
    configuration = default_configuration(actions=ACTIONS, plugins=PLUGINS)
    assert configuration.actions == ACTIONS
    assert [[option.name for option in tier.plugins] for tier in configuration.tiers] == [
        ["priority", "gang", "conformance"],
        ["overcommit", "drf", "predicates", "proportion", "nodeorder", "binpack"],
    ]
    gang = configuration.tiers[0].plugins[1]
    assert gang.switches["enablePreemptable"] is False
    assert gang.place == (6, 5)


def test_switches_are_complete_and_default_as_volcanos() -> None:
    text = "actions: allocate\ntiers: [{plugins: [{name: gang, enabledClusterOrder: true}]}]"
    switches = parsed(text).tiers[0].plugins[0].switches
    assert switches == {**SWITCH_DEFAULTS, "enabledClusterOrder": True}
    assert {name for name, value in SWITCH_DEFAULTS.items() if not value} == {"enableHierarchy", "enabledClusterOrder"}


def test_arguments_keep_their_yaml_types() -> None:
    text = """
actions: " allocate ,backfill"
tiers:
- plugins:
  - name: binpack
    arguments: {binpack.weight: 5, binpack.resources: "nvidia.com/gpu, x/y", flag: true}
configurations:
- name: allocate
  arguments: {predicateErrorCacheEnable: false}
"""
    configuration = parsed(text)
    assert configuration.actions == ("allocate", "backfill")
    assert configuration.tiers[0].plugins[0].arguments == {
        "binpack.weight": 5,
        "binpack.resources": "nvidia.com/gpu, x/y",
        "flag": True,
    }
    assert configuration.configurations["allocate"].arguments == {"predicateErrorCacheEnable": False}


def test_all_problems_are_reported_in_the_order_of_lines() -> None:
    text = """actions: "enqueue, alocate, preempt"
tiers:
- plugins:
  - name: gnag
    enabledJobOrder: true
  - name: sla
    enableJobOrder: "true"
- plugin: []
conf: 3
"""
    assert problems(text) == [
        'line 1, column 20: action "alocate" is unknown; did you mean "allocate"?',
        (
            'line 1, column 29: action "preempt" of Volcano is not available yet; '
            "available: allocate, backfill, enqueue; remove it, or skip it with --ignore-unavailable-plugins"
        ),
        'line 4, column 11: plugin "gnag" is unknown; did you mean "gang"?',
        'line 5, column 5: key "enabledJobOrder" is unknown in a plugin; did you mean "enableJobOrder"?',
        (
            'line 6, column 11: plugin "sla" of Volcano is not available yet; available: binpack, conformance, '
            "drf, gang, nodeorder, overcommit, predicates, priority, proportion; remove it, "
            "or skip it with --ignore-unavailable-plugins"
        ),
        "line 7, column 21: enableJobOrder must be true or false, without quotes",
        'line 8, column 3: key "plugin" is unknown in a tier; did you mean "plugins"?',
        (
            'line 9, column 1: key "conf" is unknown in the document; '
            "valid values: actions, configurations, metrics, tiers"
        ),
    ]


def test_hierarchical_drf_and_proportion_are_refused_in_one_tier_only() -> None:
    one_tier = "actions: allocate\ntiers: [{plugins: [{name: drf, enableHierarchy: true}, {name: proportion}]}]"
    assert any("in one tier" in problem for problem in problems(one_tier))
    two = "actions: allocate\ntiers: [{plugins: [{name: drf, enableHierarchy: true}]}, {plugins: [{name: proportion}]}]"
    assert parsed(two).tiers[0].plugins[0].switches["enableHierarchy"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "the document is empty"),
        ("actions: [", "not YAML"),
        ("actions: 'a\x01'", "not YAML"),
        ("- allocate", "the document must be a mapping"),
        ("tiers: []", "actions is missing"),
        ("actions: ''", "actions must be a string that is not empty"),
        ("actions: [allocate]", "actions must be a string"),
        ("actions: 'allocate,'", "action without a name"),
        ("actions: allocate\nactions: enqueue", 'key "actions" is given twice'),
        ("actions: allocate\ntiers: {plugins: []}", "tiers must be a list"),
        ("actions: allocate\ntiers: [{plugins: [{arguments: {}}]}]", "an entry has no name"),
        ("actions: allocate\ntiers: [{plugins: [{name: gang}, {name: gang}]}]", "is listed twice"),
        ("actions: allocate\ntiers: [{plugins: [{name: gang, arguments: [1]}]}]", "arguments must be a mapping"),
        ("actions: allocate\ntiers: [{plugins: [{name: gang, arguments: &x {a: *x}}]}]", "not YAML"),
        ("actions: allocate\nconfigurations: [{name: alocate}]", 'did you mean "allocate"?'),
        ("actions: allocate\nconfigurations: [{name: allocate}, {name: allocate}]", "is configured twice"),
    ],
)
def test_errors_of_an_invalid_file(text: str, expected: str) -> None:
    assert any(expected in problem for problem in problems(text)), problems(text)


def test_nulls_mean_nothing_given() -> None:
    text = (
        "actions: allocate\ntiers: [{plugins: [{name: gang, enableJobOrder: , arguments: }]}, {plugins: }]\nmetrics:\n"
    )
    configuration = parsed(text)
    assert configuration.tiers[0].plugins[0].switches["enableJobOrder"] is True
    assert configuration.tiers[1].plugins == ()


def test_metrics_are_a_typed_value_dotted_or_nested() -> None:
    dotted = """
actions: allocate
metrics: {type: elasticsearch, address: "https://es:9200/", interval: 1m, tls.insecureSkipVerify: "true",
  elasticsearch.index: i, elasticsearch.username: u, elasticsearch.password: p, elasticsearch.hostnameFieldName: h}
"""
    nested = """
actions: allocate
metrics:
  type: elasticsearch
  address: https://es:9200
  interval: 60s
  tls: {insecureSkipVerify: true}
  elasticsearch: {index: i, username: u, password: p, hostnameFieldName: h}
"""
    expected = MetricsSettings(
        type=MetricsType.ELASTICSEARCH,
        address="https://es:9200",
        interval=60.0,
        insecure_skip_verify=True,
        elasticsearch=ElasticsearchSettings(index="i", username="u", password="p", hostname_field="h"),
    )
    assert parsed(dotted).metrics == parsed(nested).metrics == expected
    bare = parsed("actions: allocate\nmetrics: {type: prometheus_adaptor}").metrics
    assert bare == MetricsSettings(type=MetricsType.PROMETHEUS_ADAPTOR)
    assert bare.interval == 30.0


@pytest.mark.parametrize(
    ("section", "expected"),
    [
        ("{type: prometheus}", "line 2, column 10: metrics of type prometheus need an address"),
        ("{type: prometheus, address: prom:9090}", "line 2, column 38: metrics.address must be a URL"),
        ("{type: prometheus_adaptor, interval: 0s}", "metrics.interval must be more than zero"),
        ("{typ: prometheus}", 'key "typ" is unknown in metrics; did you mean "type"?'),
        ("{tls: {insecure: true}}", 'key "insecure" is unknown in metrics.tls; did you mean "insecureSkipVerify"'),
        ("[]x", "not YAML"),
        ("prometheus", "metrics must be a mapping"),
    ],
)
def test_errors_of_an_invalid_metrics_section(section: str, expected: str) -> None:
    found = problems(f"actions: allocate\nmetrics: {section}\n")
    assert any(expected in problem for problem in found), found


def test_metrics_without_a_type_cause_a_warning() -> None:
    configuration = parsed("actions: allocate\nmetrics: {interval: 10s}")
    assert configuration.metrics is None
    assert [str(warning) for warning in configuration.warnings] == [
        (
            "line 2, column 10: metrics has no type, so nothing is polled; "
            "add type: one of prometheus, prometheus_adaptor, elasticsearch"
        )
    ]


def test_unavailable_plugins_are_skipped_on_request_and_each_is_reported_once() -> None:
    text = """actions: "enqueue, gangpreempt, allocate"
tiers:
- plugins:
  - name: numa-aware
  - name: gang
configurations:
- name: gangpreempt
  arguments: {x: 1}
"""
    configuration = parse(text, actions=ACTIONS, plugins=PLUGINS, ignore_unavailable=True)
    assert configuration.actions == ("enqueue", "allocate")
    assert [option.name for tier in configuration.tiers for option in tier.plugins] == ["gang"]
    assert configuration.configurations == {}
    assert [str(warning) for warning in configuration.warnings] == [
        'line 1, column 20: action "gangpreempt" of Volcano is not available yet and is skipped',
        'line 4, column 11: plugin "numa-aware" of Volcano is not available yet and is skipped',
    ]
    with pytest.raises(ConfigurationError, match="gnag"):
        parse("actions: gnag", actions=ACTIONS, plugins=PLUGINS, ignore_unavailable=True)


def test_mappings_may_be_merged_into_others() -> None:
    text = """
actions: allocate
tiers:
- plugins:
  - &quiet {name: gang, enableJobOrder: false, enablePreemptable: false, arguments: &own {a: 1, b: 2}}
  - {<<: *quiet, name: drf, enableJobOrder: true, arguments: {<<: *own, b: 3}}
"""
    gang, drf = parsed(text).tiers[0].plugins
    assert (gang.name, drf.name) == ("gang", "drf")
    assert (drf.switches["enableJobOrder"], drf.switches["enablePreemptable"]) == (True, False)
    assert drf.arguments == {"a": 1, "b": 3}
