"""Lint: a literal file in, findings out."""

from __future__ import annotations

import textwrap

from tests.scenario.scheduling.harness import actions, plugins
from volcanoio.engine.scheduling.config.config_maps import excerpts
from volcanoio.engine.scheduling.config.configuration import default_text
from volcanoio.engine.scheduling.config.lint import lint


def findings(text: str, *, ignore_unavailable: bool = False) -> list[str]:
    known = {name: plugin for name, plugin in plugins().items() if name in (*KNOWN, "capacity")}
    return [
        str(finding) for finding in lint(text, plugins=known, actions=actions(), ignore_unavailable=ignore_unavailable)
    ]


KNOWN = ("priority", "gang", "conformance", "overcommit", "drf", "predicates", "proportion", "nodeorder", "binpack")


def test_the_default_has_no_findings() -> None:
    assert findings(default_text()) == []


def test_errors_of_all_kinds_at_once() -> None:
    text = """actions: "enqueue, alocate"
tiers:
- plugins:
  - name: gnag
  - name: binpack
    enableOverused: true
    arguments:
      binpack.weight: "5"
      binpack.cpuu: 3
  - name: predicates
    arguments: {predicate.NodePortsEnable: "maybe", predicate.CacheEnable: "true"}
metrics: {type: promtheus, interval: 30, tls: {insecureSkipVerify: 3}}
"""
    assert findings(text) == [
        '1:20: error: action "alocate" is unknown; did you mean "allocate"?',
        '4:11: error: plugin "gnag" is unknown; did you mean "gang"?',
        '6:5: error: key "enableOverused" is unknown in a plugin; did you mean "enabledOverused"?',
        '8:7: error: binpack: "binpack.weight" takes a whole number, not the string "5"; write it without quotes',
        '9:7: error: binpack: unknown argument "binpack.cpuu"; did you mean "binpack.cpu"?',
        (
            '11:17: error: predicates: "predicate.NodePortsEnable" takes true or false, not the string "maybe"; '
            "write it without quotes"
        ),
        '12:17: error: metrics.type "promtheus" is unknown; did you mean "prometheus"?',
        (
            "12:38: error: metrics.interval: '30' is not a duration; write numbers with units (ms, s, m, h), such as "
            "30s, 250ms or 1m30s"
        ),
        '12:68: error: tls.insecureSkipVerify must be true or false, not "3"',
    ]


def test_unavailable_features_are_errors_or_warnings() -> None:
    text = """actions: "allocate"
tiers:
- plugins:
  - name: deviceshare
    enableJobOrder: 3
  - name: gang
configurations:
- name: allocate
"""
    refused = (
        '4:11: error: plugin "deviceshare" of Volcano is not available yet; available: binpack, capacity, '
        "conformance, drf, gang, nodeorder, overcommit, predicates, priority, proportion; remove it, or skip it with "
        "--ignore-unavailable-plugins"
    )
    wrong = "5:21: error: enableJobOrder must be true or false; without quotes"
    assert findings(text) == [refused, wrong]
    skipped = '4:11: warning: plugin "deviceshare" of Volcano is not available yet and is skipped'
    assert findings(text, ignore_unavailable=True) == [skipped, wrong]


def test_switches_and_arguments_without_effect_are_warnings() -> None:
    text = """actions: "allocate"
tiers:
- plugins:
  - name: binpack
    enableTaskOrder: false
    enableNodeOrder: true
    enableHierarchy: true
    enableTargetJob: true
  - name: overcommit
configurations:
- name: backfill
  arguments: {predicateErrorCacheEnable: true}
"""
    assert findings(text) == [
        "5:5: warning: enableTaskOrder of binpack has no effect: the plugin has no TaskOrder; remove it",
        "7:5: warning: enableHierarchy of binpack has no effect: the plugin has no Hierarchical; remove it",
        "8:5: warning: enableTargetJob has no effect: no plugin of this version is asked for that; remove it",
        (
            '9:5: warning: plugin "overcommit" has no effect: it limits which jobs may wait, but enqueue is not '
            "listed; add enqueue to actions, or remove the plugin"
        ),
        (
            '11:3: warning: the arguments of action "backfill" have no effect: it is not among the actions; '
            "add it to actions, or remove them"
        ),
    ]


def test_a_check_of_a_plugin_s_own_has_the_place_of_its_argument() -> None:
    text = """actions: "allocate"
tiers:
- plugins:
  - name: binpack
    arguments:
      binpack.resources: nvidia.com/gpu
      binpack.resources.example.com/fpga: 2
"""
    assert findings(text) == [
        (
            '7:7: error: binpack: "binpack.resources.example.com/fpga" weighs what binpack.resources does not list; '
            "add it there"
        )
    ]


def test_plugins_that_contradict_each_other_are_errors() -> None:
    text = """actions: "allocate"
tiers:
- plugins:
  - name: drf
    enableHierarchy: true
- plugins:
  - name: proportion
"""
    assert (
        "7:5: error: drf with enableHierarchy and proportion share out the same queues differently; keep one of them"
        in findings(text)
    )


def test_plugins_that_share_out_the_same_queues_are_an_error() -> None:
    text = "actions: allocate\ntiers:\n- plugins:\n  - name: capacity\n- plugins:\n  - name: proportion\n"
    assert findings(text) == [
        (
            "6:5: error: capacity and proportion are both listed and contradict each other: "
            "both share out the queues; keep one of them"
        )
    ]


def test_an_action_without_victims_is_a_warning() -> None:
    text = """actions: "allocate, preempt, reclaim"
tiers:
- plugins:
  - {name: gang, enablePreemptable: false}
  - {name: drf, enablePreemptable: false}
"""
    assert findings(text) == [
        (
            '1:10: warning: action "preempt" finds no victims: no plugin with Preemptable is switched on; '
            "add such a plugin, or remove the action"
        )
    ]


def test_a_configmap_is_read_through_with_the_lines_of_its_file() -> None:
    conf = 'actions: "allocate"\n\ntiers:\n- plugins:\n  - name: gnag\n'
    manifest = (
        "apiVersion: v1\nkind: Namespace\nmetadata: {name: volcano-system}\n---\n"
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: volcano-scheduler-configmap\ndata:\n"
        "  other.conf: x\n  volcano-scheduler.conf: |\n" + textwrap.indent(conf, "    ", lambda _: True)
    )
    found = excerpts(manifest)
    assert found is not None
    assert [each.text for each in found] == [conf]
    assert found[0].place(5, 11) == (manifest[: manifest.index("gnag")].count("\n") + 1, 15)


def test_a_configmap_as_json_and_a_list_are_found_with_the_place_of_the_text() -> None:
    manifest = (
        '{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "v1", "kind": "ConfigMap",\n'
        '"data": {"volcano-scheduler.conf": "actions: allocate\\ntiers: []\\n"}}]}'
    )
    found = excerpts(manifest)
    assert found is not None
    assert [(each.text, each.place(2, 1)) for each in found] == [("actions: allocate\ntiers: []\n", (2, 36))]


def test_a_text_that_is_no_manifest_is_no_configmap() -> None:
    assert excerpts("actions: allocate") is None
    assert excerpts("a: [") is None
    assert excerpts("apiVersion: v1\nkind: ConfigMap\n") == []
