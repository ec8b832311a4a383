"""Input of `volcanoio simulate`: forms of state that it reads, and messages about state that it cannot use."""

from __future__ import annotations

import io
import json
from typing import Any

import msgspec
import pytest
import yaml

from tests.scenario.scheduling.harness import group, node, pod, queue
from tests.scenario.simulate.command import Simulate
from volcanoio.engine.scheduling.config import configuration
from volcanoio.model.base import Manifest

OBJECTS = [queue("default"), node("n1"), group("g", 1), pod("p-0", "g", cpu="1")]
LIST = {"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": OBJECTS}
BOUND = [{"pod": "ns/p-0", "node": "n1"}]
POD = """apiVersion: v1
kind: Pod
metadata:
  name: a
  namespace: ns
spec:
  containers:
  - name: main
    resources:
      requests:
        cpu: {cpu}
"""


def _lines(objects: list[Manifest]) -> str:
    return "\n".join(map(json.dumps, objects))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("list.yaml", yaml.safe_dump(LIST)),
        ("list.json", json.dumps(LIST, indent=4)),
        ("stream.yaml", yaml.safe_dump_all(OBJECTS)),
        ("stream.json", "\n".join(json.dumps(each, indent=4) for each in OBJECTS)),
        ("lines.json", _lines(OBJECTS)),
        ("json-named.yaml", json.dumps(LIST)),
        ("mixed.yaml", yaml.safe_dump({**LIST, "items": OBJECTS[:2]}) + "---\n" + yaml.safe_dump_all(OBJECTS[2:])),
    ],
)
def test_every_form_of_a_state_is_read(simulate: Simulate, name: str, content: str) -> None:
    assert simulate.run("-f", simulate.file(name, content), "-o", "json").json["binds"] == BOUND


def test_files_and_directories_are_read_together(simulate: Simulate) -> None:
    first = simulate.file("nodes.yaml", yaml.safe_dump_all(OBJECTS[:2]))
    simulate.file("more/b.json", json.dumps(OBJECTS[2]))
    simulate.file("more/a.yml", yaml.safe_dump(OBJECTS[3]))
    simulate.file("more/README.md", "not: [read")
    ended = simulate.run("-f", first, "-f", simulate.directory / "more", "-o", "json")
    assert ended.json["binds"] == BOUND
    text = "not read, because their names do not end in .yaml, .yml or .json"
    assert ended.err == f"note: {text}: {simulate.directory}/more/README.md\n"


def test_a_dash_reads_standard_input(simulate: Simulate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(json.dumps(LIST).encode())))
    assert simulate.run("-f", "-", "-o", "json").json["binds"] == BOUND


def test_items_of_a_typed_list_need_no_kind(simulate: Simulate) -> None:
    items = [{key: value for key, value in OBJECTS[3].items() if key not in ("apiVersion", "kind")}]
    pods = simulate.file("pods.json", json.dumps({"apiVersion": "v1", "kind": "PodList", "items": items}))
    rest = simulate.file("rest.json", _lines(OBJECTS[:3]))
    assert simulate.run("-f", pods, "-f", rest, "-o", "json").json["binds"] == BOUND


def test_namespace_and_uid_may_be_missing_and_null_fields_are_ignored(simulate: Simulate) -> None:
    bare = msgspec.json.decode(msgspec.json.encode(OBJECTS))
    for each in bare:
        each["metadata"].pop("uid")
        each["metadata"].pop("namespace", None)
        each["metadata"]["labels"] = None
    found = simulate.run("-f", simulate.file("state.json", _lines(bare)), "-o", "json").json
    assert found["binds"] == [{"pod": "default/p-0", "node": "n1"}]


def test_kinds_that_are_not_read_are_reported_once(simulate: Simulate) -> None:
    others = [
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}},
        {"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "a"}},
        {"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "b"}},
    ]
    ended = simulate.run("-f", simulate.file("state.json", _lines([*OBJECTS, *others])), "-o", "json")
    assert ended.json["binds"] == BOUND
    assert ended.err == "note: ignored, as nothing here reads them: Gadget (2), Service (1)\n"


def test_a_state_without_pods_of_the_scheduler_is_reported(simulate: Simulate) -> None:
    other = pod("p-0", "g", cpu="1", spec={"schedulerName": "default-scheduler"})
    ended = simulate.run("-f", simulate.file("state.json", _lines([*OBJECTS[:3], other])), "-o", "json")
    assert ended.json["binds"] == []
    assert ended.err == (
        "note: no pod has spec.schedulerName volcano: there is nothing to schedule; see --scheduler-name\n"
    )


def _changed(at: int, **fields: Any) -> str:
    return _lines([*OBJECTS[:at], {**OBJECTS[at], **fields}, *OBJECTS[at + 1 :]])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a: b\nc: [d\n", "DIR/state, line 3, column 1: did not find expected ',' or ']'"),
        ("kind: Pod\n", "DIR/state, document 1: an object needs apiVersion and kind; write both at its top"),
        (
            '{"apiVersion": "v1"}',
            "DIR/state, object 1: an object without kind; write both apiVersion and kind at its top",
        ),
        (
            '{"apiVersion": "v1", "kind": "List", "items": [{"metadata": {}}]}',
            (
                "DIR/state, object 1, item 1: an object without apiVersion and kind; "
                "write both apiVersion and kind at its top"
            ),
        ),
        ('{"apiVersion": "v1",\n}', "DIR/state, line 2, column 1: Expecting property name enclosed in double quotes; "),
        (
            '{"apiVersion": "v1", "kind": "Pod"}',
            "DIR/state, object 1: a Pod without metadata.name; name it",
        ),
        (
            '{"apiVersion": "v1", "kind": 3}',
            "DIR/state, object 1: kind: expected `str`, got `int`; write an object with apiVersion, kind and metadata",
        ),
        (
            POD.format(cpu="lots"),
            (
                "DIR/state, object 1: Pod ns/a: spec.containers[0].resources.requests[cpu]: 'lots' is not a quantity; "
                "write a number with an optional suffix, such as 500m, 2 or 4Gi"
            ),
        ),
        (
            POD.format(cpu="-1"),
            (
                "DIR/state, object 1: Pod ns/a: spec.containers[0].resources.requests[cpu]: -1 is below zero; "
                "write an amount of zero or more"
            ),
        ),
        (
            POD.format(cpu="[1]"),
            (
                "DIR/state, object 1: Pod ns/a: spec.containers[0].resources.requests[...]: "
                "expected `int | float | str`, got `array`; write it as Kubernetes documents the field"
            ),
        ),
        (
            _changed(1, status={"allocatable": {"cpu": "8x"}}),
            "DIR/state, object 2: Node n1: status.allocatable[cpu]: '8x' is not a quantity; ",
        ),
        (
            _changed(2, spec={"minMember": "two"}),
            (
                "DIR/state, object 3: PodGroup ns/g: spec.minMember: expected `int`, got `str`; "
                "write it as Kubernetes documents the field"
            ),
        ),
        (
            _lines([*OBJECTS, OBJECTS[1]]),
            "DIR/state, object 5: Node n1 is in the state twice, first in DIR/state, object 2; remove one of them",
        ),
    ],
)
def test_bad_state_is_reported_in_one_line(simulate: Simulate, content: str, message: str) -> None:
    ended = simulate.run("-f", simulate.file("state", content))
    assert ended.code == 2
    assert ended.out == ""
    assert ended.err.startswith("volcanoio: " + message.replace("DIR", str(simulate.directory)))
    assert ended.err.count("\n") == 1


def test_files_that_cannot_be_read_are_reported(simulate: Simulate) -> None:
    gone, empty, binary = simulate.directory / "gone.yaml", simulate.directory / "empty", simulate.directory / "b.yaml"
    empty.mkdir()
    binary.write_bytes(b"\xff\xfe")
    for path, message in (
        (gone, "No such file or directory; give the path of a YAML or JSON file, of a directory of such, or -"),
        (empty, "no file in it ends with .yaml, .yml, .json; give a directory of such files"),
        (binary, "not UTF-8 text; give YAML or JSON"),
    ):
        ended = simulate.run("-f", path)
        assert (ended.code, ended.err) == (2, f"volcanoio: {path}: {message}\n")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--conf", "gone.conf"), "--conf gone.conf: No such file or directory; give the path of a scheduler's "),
        (("--now", "noon"), "--now: noon is not a time; write one as 2026-01-01T00:00:00Z"),
        (("--schedule-period", "5"), "--schedule-period: '5' is not a duration; "),
        (("--node-selector", "zone"), "--node-selector: zone is not a label; write KEY:VALUE, as in zone:a"),
        (("--feature-gates", "PriorityClas=true"), '--feature-gates: PriorityClas is unknown; did you mean "PriorityC'),
        (
            ("--feature-gates", "PriorityClass=on"),
            "--feature-gates: PriorityClass=on is not a switch; write ",
        ),
        (
            ("--scheduler-sharding-mode", "odd"),
            "--scheduler-sharding-mode: there is no odd; write none or hard",
        ),
        (("--plugins-dir", "gone"), "gone"),
    ],
)
def test_bad_flags_are_reported_in_one_line(simulate: Simulate, flags: tuple[str, ...], message: str) -> None:
    ended = simulate.run("-f", simulate.file("state.json", json.dumps(LIST)), *flags)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(f"volcanoio: {message}")
    assert ended.err.count("\n") == 1


def test_a_bad_configuration_is_reported_with_its_file(simulate: Simulate) -> None:
    conf = simulate.file("scheduler.conf", "actions: allocate\ntiers:\n- plugins:\n  - name: gnag\n")
    ended = simulate.run("-f", simulate.file("state.json", json.dumps(LIST)), "--conf", conf)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(f'volcanoio: {conf}: line 4, column 11: plugin "gnag" is unknown; did you mean "gang"')


def test_plugins_that_are_not_available_yet_may_be_left_out(
    simulate: Simulate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{configuration.__name__}.VOLCANO_PLUGINS", frozenset({"upstreams-next"}))
    text = "actions: allocate\ntiers:\n- plugins:\n  - name: gang\n  - name: upstreams-next\n"
    conf, state = simulate.file("scheduler.conf", text), simulate.file("state.json", _lines(OBJECTS))
    assert simulate.run("-f", state, "--conf", conf).code == 2
    ended = simulate.run("-f", state, "--conf", conf, "-o", "json", "--ignore-unavailable-plugins")
    assert ended.json["binds"] == BOUND
    assert ended.err.startswith(f"warning: {conf}: line 5, column 11: ")


def test_flags_about_node_sampling_are_accepted_with_a_note(simulate: Simulate) -> None:
    state = simulate.file("state.json", json.dumps(LIST))
    ended = simulate.run("-f", state, "-o", "json", "--percentage-nodes-to-find=10", "--minimum-feasible-nodes=5")
    assert ended.json["binds"] == BOUND
    assert ended.err == (
        "note: --minimum-feasible-nodes, --percentage-nodes-to-find: without effect, as all nodes are considered\n"
    )


def test_feature_gates_without_effect_are_accepted_with_a_note(simulate: Simulate) -> None:
    state = simulate.file("state.json", json.dumps(LIST))
    gates = "ResourceTopology=false,PriorityClass=false,WorkLoadSupport=true"
    ended = simulate.run("-f", state, "-o", "json", "--feature-gates", gates, "--feature-gates=CSIStorage=true")
    assert ended.json["binds"] == BOUND
    assert ended.err == "note: --feature-gates: CSIStorage, ResourceTopology: without effect here\n"


def test_the_table_shows_binds_and_the_reasons_of_waiting_pods(simulate: Simulate) -> None:
    waiting = [group("big", 2), pod("b-0", "big", cpu="9"), pod("b-1", "big", cpu="9"), group("lost", 1, queue="gone")]
    state = simulate.file("state.json", _lines([*OBJECTS, *waiting]))
    conf = "actions: enqueue, allocate\ntiers:\n- plugins:\n  - name: gang\n"
    ended = simulate.run("-f", state, "--conf", simulate.file("scheduler.conf", conf))
    assert ended.code == 0
    assert ended.out.splitlines()[:4] == [
        "1 cycle: 1 bound, 0 evicted, 0 waiting for pods that are ending",
        "",
        "PODGROUP  NODE  PODS",
        "ns/g      n1    1",
    ]
    assert "0/1 nodes are unavailable: 1 Insufficient cpu." in ended.out
    assert 'queue "gone" does not exist; create it, or name another in spec.queue' in ended.out


USAGE = """
actions: "allocate"
tiers:
- plugins:
  - name: gang
  - name: usage
"""


def _busy(name: str, cpu: str, memory: str = "1Gi") -> Manifest:
    meta, version = {"name": name}, "metrics.k8s.io/v1beta1"
    return {"apiVersion": version, "kind": "NodeMetrics", "metadata": meta, "usage": {"cpu": cpu, "memory": memory}}


def test_node_usage_is_read_too(simulate: Simulate) -> None:
    state = [queue("default"), node("n1"), node("n2"), group("g", 2), *(pod(f"p-{at}", "g", cpu="1") for at in "01")]
    found = simulate.state(*state, _busy("n1", "7900m"), _busy("n2", "100m"), _busy("gone", "1"), conf=USAGE)
    assert {each["node"] for each in found["binds"]} == {"n2"}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (_busy("n1", "much"), "NodeMetrics n1: usage[cpu]: "),
        ({**_busy("n1", "1"), "usage": {"cpu": "1"}}, "NodeMetrics n1: usage: object missing required field `memory`"),
    ],
)
def test_invalid_usage_is_reported(simulate: Simulate, wrong: Manifest, message: str) -> None:
    ended = simulate.run("-f", simulate.file("state.json", json.dumps(wrong)))
    assert ended.code == 2
    assert message in ended.err
