"""Changes of a state before it is decided: further nodes, fields, and another configuration."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.scenario.scheduling.harness import group, node, priority_class, queue
from tests.scenario.scheduling.quotas import CONF as QUOTAS
from tests.scenario.scheduling.quotas import quota
from tests.scenario.simulate.command import Ended, Simulate
from tests.scenario.why.cases import ALLOCATE, FULL, PREEMPT, gang
from volcanoio.model.base import Manifest

ONE_GPU: dict[str, Any] = {"nvidia.com/gpu": "1"}
STATE = [
    node("n1", cpu="4", labels={"zone": "a"}),
    queue("default"),
    queue("ml", capability={"cpu": "2"}),
    *gang(6, name="wide"),
    *gang(3, name="train", queue="ml"),
]


def _run(simulate: Simulate, *words: str, state: list[Manifest] = STATE, conf: str | None = ALLOCATE) -> Ended:
    listed = {"apiVersion": "v1", "kind": "List", "items": state}
    files: list[str | Path] = ["-f", simulate.file("state.json", json.dumps(listed))]
    if conf is not None:
        files += ["--conf", simulate.file("now.conf", conf)]
    return simulate.run(*files, "--now", "2026-01-02T00:00:00Z", *words)


def _bound(ended: Ended) -> dict[str, int]:
    """Return the number of bound pods of each group."""
    names = [bind["pod"].partition("/")[2].rpartition("-")[0] for bind in ended.json["binds"]]
    return {name: names.count(name) for name in names}


@pytest.mark.parametrize(
    ("words", "conf", "bound"),
    [
        ([], ALLOCATE, {"train": 3}),
        (["--add-nodes", "1xn1"], ALLOCATE, {"wide": 6}),
        (["--add-nodes", "2xn1"], ALLOCATE, {"wide": 6, "train": 3}),
        (["--add-nodes", "1xcpu=6,memory=8Gi"], ALLOCATE, {"wide": 6, "train": 3}),
        (["--set", "podgroup.ns/wide.minMember=4"], ALLOCATE, {"wide": 4}),
        ([], None, {}),
        (["--set", "queue.ml.capability.cpu=3"], None, {}),
        (["--set", "queue.ml.capability.cpu=3", "--set", "queue.ml.weight=3"], None, {"train": 3}),
        (["--set", "queue.ml.capability.cpu=3", "--add-nodes", "2xn1"], None, {"wide": 6, "train": 3}),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, list) else "",
)
def test_changes(simulate: Simulate, words: list[str], conf: str | None, bound: dict[str, int]) -> None:
    ended = _run(simulate, *words, "-o", "json", "--cycles", "2", conf=conf)
    assert _bound(ended) == bound


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--add-nodes", "n1"], '--add-nodes: "n1" is not COUNTxNODE or COUNTxAMOUNTS'),
        (["--add-nodes", "0xn1"], "with a count from 1 to 10000"),
        (["--add-nodes", "1xn2"], '--add-nodes: there is no node "n2"; name one of the state'),
        (["--add-nodes", "1xcpu=many"], "--add-nodes: 1xcpu=many: "),
        (["--set", "queue.ml=3"], '--set: "queue.ml=3" is not KIND.NAME.FIELD=VALUE'),
        (["--set", "job.ml.weight=3"], '"job" cannot be changed; valid values: node, pod, podgroup, queue'),
        (["--set", "queue.mll.weight=3"], 'there is no Queue "mll" in the state; did you mean ml?'),
        (["--set", "queue.ml.wieght=3"], 'spec of a Queue has no field "wieght"; did you mean weight?'),
        (["--set", "queue.ml.weight=much"], "--set: queue.ml.weight=much: "),
        (["--set", "queue.ml.weight.x=1"], '"weight" has no fields; leave out what follows it'),
        (["--set", "queue.ml.guarantee.cpu=4"], 'spec.guarantee of a Queue has no field "cpu"; valid values: resource'),
        (["--set", "podgroup.wide.minMember=1"], 'there is no PodGroup "wide" in the state'),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, list) else "",
)
def test_changes_that_cannot_be_made(simulate: Simulate, words: list[str], error: str) -> None:
    ended = _run(simulate, *words)
    assert ended.code == 2
    assert error in ended.err


JOB = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: new, namespace: ns}
spec:
  priorityClassName: high
  tasks:
  - {name: ps, replicas: 1, template: {spec: {containers: [{name: c, image: i, resources: {requests: {cpu: "1"}}}]}}}
  - {name: worker, replicas: 2, template: {spec: {containers: [{name: c, image: i, resources: {limits: {cpu: "1"}}}]}}}
"""


def test_a_submitted_job_is_placed(simulate: Simulate) -> None:
    state = [node("n1", cpu="4"), queue("default"), priority_class("high", 100), *gang(2, name="other")]
    found = _run(simulate, "--submit", str(simulate.file("job.yaml", JOB)), "-o", "json", state=state).json
    assert {bind["pod"] for bind in found["binds"]} == {"ns/new-ps-0", "ns/new-worker-0", "ns/new-worker-1"}
    assert found["podGroups"]["ns/new-submitted-new"] == {"phase": "Inqueue"}


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (JOB.replace("kind: Job", "kind: CronJob"), "CronJob of batch.volcano.sh/v1alpha1 is not a Job of"),
        (JOB.replace("replicas: 2", "replicas: -2"), "spec.tasks[1].minAvailable: "),
        (JOB.replace("replicas: 2", "replicas: two"), "Expected `int`, got `str`"),
        (JOB.replace('cpu: "1"', "cpu: many"), "Job new: spec.tasks[0]"),
        (f"{JOB}---{JOB}", "ns/new-submitted-new exists in the state; submit another name"),
        ("a: [", "--submit: "),
    ],
)
def test_jobs_that_cannot_be_submitted(simulate: Simulate, text: str, error: str) -> None:
    ended = _run(simulate, "--submit", str(simulate.file("job.yaml", text)))
    assert ended.code == 2
    assert error in ended.err


def test_a_missing_file_with_jobs(simulate: Simulate) -> None:
    assert "--submit nowhere.yaml: No such file" in _run(simulate, "--submit", "nowhere.yaml").err


def test_another_configuration_is_compared(simulate: Simulate) -> None:
    other = simulate.file("preempt.conf", PREEMPT)
    said = _run(simulate, "--compare", str(other), state=FULL).out
    assert said == (
        f"{simulate.directory}/now.conf: 1 cycle: 0 bound, 0 evicted\n"
        f"{other}: 1 cycle: 0 bound, 2 evicted\n\n"
        "RESERVED FOR  NODE BEFORE  NODE AFTER\n"
        "ns/urgent-0   -            n1\n"
        "ns/urgent-1   -            n1\n\n"
        "EVICTED ONLY AFTER\nns/old-2\nns/old-3\n"
    )


def test_both_outcomes_of_a_comparison_are_in_its_json(simulate: Simulate) -> None:
    other = str(simulate.file("preempt.conf", PREEMPT))
    found = _run(simulate, "--compare", other, "-o", "json", state=FULL).json
    assert found["before"]["evictions"] == []
    assert len(found["after"]["evictions"]) == 2


def test_names_of_resources_may_have_dots(simulate: Simulate) -> None:
    state = [
        node("n1", **{"nvidia.com/gpu": "2"}),
        queue("default"),
        queue("ml", capability={"nvidia.com/gpu": "1"}),
        *gang(2, name="train", queue="ml", **ONE_GPU),
    ]
    words = ("--set", "queue.ml.capability.nvidia.com/gpu=2", "-o", "json")
    assert _bound(_run(simulate, "-o", "json", state=state, conf=None)) == {}
    assert _bound(_run(simulate, *words, state=state, conf=None)) == {"train": 2}


def test_what_only_the_other_configuration_reads_is_compared(simulate: Simulate) -> None:
    state = [node("n1"), queue("default"), quota("tight", {"cpu": "1"}), group("g", 2, minResources={"cpu": "2"})]
    said = _run(simulate, "--compare", str(simulate.file("quotas.conf", QUOTAS)), state=state).out
    assert "PODGROUP  PHASE BEFORE  PHASE AFTER\nns/g      Inqueue       Pending\n" in said


def test_equal_decisions_are_said_to_be_equal(simulate: Simulate) -> None:
    said = _run(simulate, "--compare", str(simulate.file("same.conf", ALLOCATE))).out
    assert said.endswith("both decide the same\n")


def test_both_sides_of_a_comparison_are_decided_at_the_time_of_a_running_schedulers_snapshot(
    simulate: Simulate,
) -> None:
    memory = {
        "apiVersion": "volcanoio.dev/v1alpha1",
        "kind": "SchedulerMemory",
        "at": 1767312000.0,
        "backOff": {"ns-train-0": {"refusals": 5, "retryAt": 1767312010.0}},
    }
    state = [node("n1", cpu="4"), queue("default"), *gang(1, name="train"), memory]
    listed = {"apiVersion": "v1", "kind": "List", "items": state}
    state_file, conf = simulate.file("state.json", json.dumps(listed)), simulate.file("now.conf", ALLOCATE)
    files: list[str | Path] = ["-f", state_file, "--conf", conf]
    assert simulate.run(*files, "-o", "json").json["binds"] == []
    said = simulate.run(*files, "--compare", simulate.file("same.conf", ALLOCATE)).out
    assert said.endswith("both decide the same\n")
    later = simulate.run(*files, "--now", "2026-01-02T00:01:00Z", "-o", "json").json
    assert [bind["pod"] for bind in later["binds"]] == ["ns/train-0"]
