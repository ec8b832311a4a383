"""networkTopologyDiscovery in volcano-controller.conf: what is read, and which mistakes are found."""

from __future__ import annotations

import pytest

from tests.unit.hypernodes.topology import read, sources
from volcanoio.model.core import LabelSelector
from volcanoio.model.nodes import DiscoverySource, Level, SecretReference, TopologyType


def test_volcanos_example_is_read() -> None:
    found = sources("""
networkTopologyDiscovery:
  - source: ufm
    enabled: true
    interval: 10m
    credentials:
      secretRef:
        name: ufm-credentials
        namespace: elsewhere
    config:
      endpoint: https://ufm-server:8080
      insecureSkipVerify: true
  - source: roce
    enabled: false
    interval: 15m
    config:
      endpoint: https://roce-server:9090
  - source: label
    enabled: true
    config:
      networkTopologyTypes:
        topologyA2:
          - nodeLabel: "volcano.sh/tor"
          - nodeLabel: "kubernetes.io/hostname"
        profile:
          nodeSelector: {matchLabels: {a: b}}
          levels:
            - nodeLabel: x/cluster
              tierName: cluster
            - nodeLabel: x/rack
            - nodeLabel: "kubernetes.io/hostname"
""")
    assert found == (
        DiscoverySource(
            source="ufm",
            enabled=True,
            interval=600.0,
            endpoint="https://ufm-server:8080",
            insecure_skip_verify=True,
            secret=SecretReference(namespace="elsewhere", name="ufm-credentials"),
        ),
        DiscoverySource(source="roce", interval=900.0),
        DiscoverySource(
            source="label",
            enabled=True,
            types=(
                TopologyType(name="topologyA2", levels=(Level(label="volcano.sh/tor", tier_name="volcano.sh/tor"),)),
                TopologyType(
                    name="profile",
                    levels=(Level(label="x/rack", tier_name="x/rack"), Level(label="x/cluster", tier_name="cluster")),
                    selector=LabelSelector(match_labels={"a": "b"}),
                ),
            ),
        ),
    )


def test_defaults() -> None:
    assert sources("networkTopologyDiscovery:\n- source: label") == (DiscoverySource(source="label", interval=3600.0),)


_TYPES = "- {{source: label, enabled: true, config: {{networkTopologyTypes: {}}}}}".format
_UFM = "- {{source: ufm, enabled: true, {}}}".format


@pytest.mark.parametrize(
    ("entries", "problem"),
    [
        ("label", "networkTopologyDiscovery must be a list; start each entry with a dash"),
        ("- {enabled: true}", "a source needs its name; write - source: label"),
        ("- {source: lable}", 'source "lable" is unknown; did you mean "label"?'),
        ("- {source: snmp}", 'source "snmp" is unknown; valid values: label, roce, ufm'),
        ("- {source: label}\n- {source: label}", 'source "label" is given twice; keep one of them'),
        ("- {source: roce, enabled: true}", "source roce is not supported, as in Volcano; write enabled: false"),
        ("- {source: label, enabled: maybe}", "enabled must be true or false"),
        ("- {source: label, intervall: 1s}", 'key "intervall" is unknown in a source; did you mean "interval"?'),
        ("- {source: ufm, interval: 0s}", "interval must be longer than 0; write for instance 10m"),
        ("- {source: ufm, interval: soon}", "interval: 'soon' is not a duration"),
        ("- {source: label, enabled: true}", "source label needs config.networkTopologyTypes"),
        (_TYPES("{}"), "source label needs config.networkTopologyTypes"),
        (_TYPES("{a: [{nodeLabel: x}]}"), "type a must have at least two levels"),
        (_TYPES("{a: [{nodeLabel: x}, {nodeLabel: x}]}"), 'nodeLabel "x" is given twice in type a'),
        (_TYPES("{a: [{nodeLabel: x y}, {nodeLabel: x}]}"), 'nodeLabel "x y" is not a label'),
        (_TYPES("{a: [{label: x}, {nodeLabel: x}]}"), 'key "label" is unknown in a level'),
        (_TYPES("{a: [x, y]}"), "a level must be a mapping"),
        (_TYPES("{abcdefghijklmnopqrstu: [{nodeLabel: x}, {nodeLabel: y}]}"), "must have 1 to 20 characters"),
        (_TYPES("{a_b: [{nodeLabel: x}, {nodeLabel: y}], a-b: [{nodeLabel: x}, {nodeLabel: y}]}"),
         "the HyperNodes of types a_b and a-b would have the same names; rename one of them"),
        (_TYPES("{a: {levels: [{nodeLabel: x}, {nodeLabel: y}]}}"), "type a needs nodeSelector"),
        (_TYPES("{a: {nodeSelector: {}, levels: [{nodeLabel: x}, {nodeLabel: y}]}}"), "nodeSelector selects no node"),
        (_TYPES("{a: {nodeSelector: {matchLabels: 1}, levels: [{nodeLabel: x}, {nodeLabel: y}]}}"),
         "nodeSelector is no label selector"),
        (_UFM("credentials: {secretRef: {name: u}}"), "source ufm needs config.endpoint"),
        (_UFM("config: {endpoint: x}"), "source ufm needs credentials.secretRef"),
        (_UFM("config: {endpoint: 'ftp://x'}"), 'endpoint "ftp://x" is no address'),
        (_UFM("config: {endpoint: x}, credentials: {}"), "credentials needs secretRef"),
        (_UFM("config: {endpoint: x}, credentials: {secretRef: {}}"), "secretRef needs the name of a Secret"),
        (_UFM("config: {endpoint: x}, credentials: {secretRef: {name: A_}}"), 'name "A_" is not a name'),
    ],
)  # fmt: skip
def test_a_mistake_is_reported_with_its_line(entries: str, problem: str) -> None:
    _, problems = read(f"networkTopologyDiscovery:\n{entries if entries[0] == '-' else '  ' + entries}\n")
    assert any(problem in each and each.startswith("line ") for each in problems), problems
