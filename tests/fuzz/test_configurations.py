"""Configuration files, kubeconfigs and answers of other programs: read, or refused with an error of ours."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.fuzz.mutations import damaged, enlarged, mutated, outcome, values, yaml_texts
from tests.scenario.scheduling.extender_server import AnsweredWorld
from tests.scenario.scheduling.harness import World, actions, group, node, plugins, pod
from volcanoio.engine.admission.resource_groups import AdmissionConfError, parse_admission_conf
from volcanoio.engine.scheduling.config.configuration import ConfigurationError, parse
from volcanoio.engine.scheduling.config.lint import lint
from volcanoio.engine.scheduling.config.profile import Profile
from volcanoio.framework.scheduling_events import FactsSaid
from volcanoio.kube.kubeconfig import ConfigError, from_file
from volcanoio.kube.transport import Response
from volcanoio.model.packaged import config_path
from volcanoio.runtime.policies import configuration as controllers
from volcanoio.runtime.scheduler.node_metrics import MetricsError, decoded, number

PLUGINS, ACTIONS = plugins(), actions()
SCHEDULER = yaml.safe_load(config_path("scheduler", "multi-tenant.conf").read_text())
ARGUMENTS = {
    "actions": "enqueue, allocate, preempt, reclaim, backfill",
    "tiers": [{"plugins": [{"name": name, "arguments": {}} for name in sorted(PLUGINS)]}],
    "configurations": [{"name": "enqueue", "arguments": {"overcommit-factor": "1.5"}}],
    "metrics": {"type": "prometheus", "address": "http://127.0.0.1:9090", "interval": "30s"},
}
POLICIES = {
    "policies": [
        {"name": "oom_scale_up", "enabled": True, "arguments": {"factor": 2}},
        {"name": "namespace_quota", "arguments": {"caps": {"ns": {"cpu": "1"}}}},
    ]
}
GROUPS = {
    "resourceGroups": [
        {
            "resourceGroup": "g", "object": {"key": "namespace", "value": ["a"]}, "schedulerName": "volcano",
            "labels": {"a": "b"}, "tolerations": [{"key": "a", "operator": "Exists"}], "affinity": "{}",
        }
    ]
}  # fmt: skip
SECRET = "s3cr3t-t0k3n"
KUBECONFIG = {
    "apiVersion": "v1", "kind": "Config", "current-context": "c",
    "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1", "certificate-authority-data": "YQ=="}}],
    "users": [{"name": "u", "user": {"token": SECRET}}],
    "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "ns"}}],
}  # fmt: skip


def configured(text: str) -> object:
    """Build everything that a scheduler builds of its configuration."""
    return Profile.build(parse(text, actions=ACTIONS, plugins=PLUGINS), PLUGINS, ACTIONS)


@examples(60)
@given(yaml_texts(SCHEDULER, ARGUMENTS))
def test_configurations_of_the_scheduler(text: str) -> None:
    outcome(ConfigurationError, configured, text)
    for finding in lint(text, plugins=PLUGINS, actions=ACTIONS):
        assert finding.text


@pytest.mark.parametrize("plugin", sorted(PLUGINS))
@examples(8)
@given(data=st.data())
def test_arguments_of_plugins(plugin: str, data: st.DataObject) -> None:
    """Any argument is accepted or refused when the configuration is loaded, never in a cycle."""
    known = _arguments(plugin) or ["a"]
    arguments = data.draw(st.dictionaries(st.sampled_from(known), values, max_size=3))
    tiers = [{"plugins": [{"name": "predicates"}, {"name": plugin, "arguments": arguments}]}]
    text = yaml.safe_dump({"actions": "allocate, backfill", "tiers": tiers})
    if isinstance(outcome(ConfigurationError, configured, text), ConfigurationError):
        return
    World(node("n1"), group("a", 1, phase="Inqueue"), pod("a", "a", cpu="1"), conf=text).run()


def _arguments(plugin: str) -> list[str]:
    """Return words of the plugin's source that may be arguments."""
    module = inspect.getmodule(PLUGINS[plugin])
    assert module is not None
    return sorted(set(re.findall(r'"([\w./-]{3,40})"', inspect.getsource(module))))


@examples(60)
@given(yaml_texts(POLICIES))
def test_configurations_of_the_controllers(text: str) -> None:
    outcome(controllers.ConfigurationError, controllers.parse, text, ["oom_scale_up", "namespace_quota"])


@examples(60)
@given(yaml_texts(GROUPS))
def test_configurations_of_admission(text: str) -> None:
    outcome(AdmissionConfError, parse_admission_conf, text)


LARGE: dict[str, tuple[type[Exception], Callable[[str], object], Any]] = {
    "scheduler": (ConfigurationError, configured, SCHEDULER),
    "arguments": (ConfigurationError, configured, ARGUMENTS),
    "controllers": (controllers.ConfigurationError, lambda text: controllers.parse(text, ["oom_scale_up"]), POLICIES),
    "admission": (AdmissionConfError, parse_admission_conf, GROUPS),
}


@pytest.mark.parametrize(("error", "read", "valid"), LARGE.values(), ids=LARGE)
@examples(6)
@given(data=st.data())
def test_large_configurations(
    error: type[Exception], read: Callable[[str], object], valid: Any, data: st.DataObject
) -> None:
    text = yaml.safe_dump(data.draw(enlarged(valid)))
    outcome(error, read, text, longest=200 * len(text))  # a message lists all mistakes of a file


@examples(80)
@given(text=yaml_texts(KUBECONFIG))
def test_kubeconfigs_are_not_echoed(text: str) -> None:
    """An error names the file and the field, and contains no token."""
    with NamedTemporaryFile() as file:
        Path(file.name).write_text(text, encoding="utf-8", errors="replace")
        found = outcome(ConfigError, lambda: asyncio.run(from_file(Path(file.name))))
    if isinstance(found, ConfigError):
        assert SECRET not in str(found)
        assert SECRET not in str(found.__cause__ or "")


class _Form(msgspec.Struct):
    status: str = ""
    data: dict[str, Any] = {}


ANSWER = {
    "status": "success",
    "data": {"resultType": "vector", "result": [{"metric": {"instance": "n"}, "value": [1.5, "0.5"]}]},
}


@examples(60)
@given(
    st.one_of(mutated(ANSWER).map(msgspec.json.encode), damaged(msgspec.json.encode(ANSWER).decode()).map(str.encode))
)
def test_answers_of_metrics_servers(body: bytes) -> None:
    found = outcome(MetricsError, decoded, Response(200, body, {}), _Form, "Prometheus")
    if isinstance(found, _Form):
        number(found.data.get("value"))


VERBS = """extender.predicateVerb: predicate
      extender.prioritizeVerb: prioritize
      extender.preemptableVerb: preemptable
      extender.jobEnqueueableVerb: jobEnqueueable
      extender.queueOverusedVerb: queueOverused
      extender.jobReadyVerb: jobReady"""
VERDICT = {
    "predicateResult": [],
    "hosts": [{"host": "n1", "score": 5}],
    "nodes": {"n1": ""},
    "status": 1,
    "victims": [{"uid": "a"}],
}


@examples(60)
@given(answer=st.one_of(values, mutated(VERDICT)))
def test_answers_of_extenders(answer: Any) -> None:
    """The cycle ends, whatever the answer is."""
    cluster = [
        node("n1"),
        group("a", 1),
        pod("a", "a", cpu="1"),
        group("b", 1, phase="Inqueue"),
        pod("b", "b", cpu="9"),
    ]
    AnsweredWorld(*cluster, arguments=VERBS, server=lambda _verb, _body: answer).run_until_answered()


USAGE = """\
actions: allocate
tiers:
- plugins: [{name: gang}, {name: predicates}, {name: usage}]
metrics: {type: prometheus, address: http://127.0.0.1:1}
"""


@examples(40)
@given(usage=mutated({"cpu": 50.0, "memory": 60.0, "updated": 1000.0}))
def test_facts_of_sources(usage: Any) -> None:
    cluster = World(node("n1"), group("a", 1, phase="Inqueue"), pod("a", "a", cpu="1"), conf=USAGE)
    cluster.fold(FactsSaid(source="node-metrics", facts={"n1": usage, "other": usage}))
    cluster.run()
