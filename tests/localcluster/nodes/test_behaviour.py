"""Annotations and commands → how long a pod runs and how it ends."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest

from volcanoio.localcluster.nodes.pods.behaviour import Behaviour, BehaviourError, Plan, attempt_key, behaviour_of
from volcanoio.model import names
from volcanoio.model.core import Pod


def pod(annotations: dict[str, str] | None = None, *, policy: str = "Never", uid: str = "u", **container: Any) -> Pod:
    spec = {"restartPolicy": policy, "containers": [{"name": "main", "image": "busybox", **container}]}
    return msgspec.convert({"metadata": {"name": "p", "uid": uid, "annotations": annotations or {}}, "spec": spec}, Pod)


def plan(subject: Pod, attempt: int = 1) -> Plan:
    return behaviour_of(subject, seed=0).plan(subject, subject.spec.containers[0], attempt)


@pytest.mark.parametrize(
    ("subject", "seconds"),
    [
        (pod({names.RUN_DURATION: "1m30s"}), 90),
        (pod({names.RUN_DURATION: "never"}), math.inf),
        (pod({names.RUN_DURATION: "3s"}, command=["sleep", "9"]), 3),
        (pod({names.KWOK_COMPLETE_DELAY: "7s"}), 7),
        (pod({names.RUN_DURATION: "3s", names.KWOK_COMPLETE_DELAY: "7s"}), 3),
        (pod(command=["sh", "-c", "echo a; sleep 2.5 && exit"]), 2.5),
        (pod(command=["sleep"], args=["2m"]), 120),
        (pod(command=["sleep", "infinity"]), math.inf),
        (pod(), 10),
        (pod(policy="Always"), math.inf),
    ],
    ids=lambda value: "" if isinstance(value, Pod) else str(value),
)
def test_run_time(subject: Pod, seconds: float) -> None:
    assert plan(subject).duration == seconds


@pytest.mark.parametrize(
    ("script", "seconds"),
    [
        ("trap 'exit 0' TERM; while true; do sleep 1; done", math.inf),
        ("sleep 5\nwhile :\ndo\n  for n in 1 2; do echo $n; done\n  sleep 60\ndone", math.inf),
        ("until false; do date; done", math.inf),
        ("for ((;;)); do sleep 2; done", math.inf),
        ("while true; do nslookup svc && break; sleep 3; done; echo ready", 3),
        ("while true; do test -f /done && exit 0; sleep 4; done", 4),
        ("until nslookup svc; do sleep 5; done", 5),
        ("while true; do date; sleep 6; done & python train.py", 6),
    ],
)
def test_an_endless_loop_runs_until_stopped(script: str, seconds: float) -> None:
    assert plan(pod(command=["sh", "-c", script])).duration == seconds


def test_a_range_is_drawn_by_pod_and_attempt_and_the_same_each_time() -> None:
    annotations = {names.RUN_DURATION: "uniform(5s, 20s)"}
    drawn = {(uid, n): plan(pod(annotations, uid=uid), n).duration for uid in "abc" for n in (1, 2)}
    assert all(5 <= value <= 20 for value in drawn.values())
    assert len(set(drawn.values())) == len(drawn)
    assert plan(pod(annotations, uid="a"), 1).duration == drawn["a", 1]


@pytest.mark.parametrize(
    ("annotations", "exits"),
    [
        ({}, [0, 0]),
        ({names.EXIT_CODE: "3"}, [3, 3]),
        ({names.FAIL_ATTEMPTS: "1"}, [1, 0]),
        ({names.FAIL_ATTEMPTS: "2", names.EXIT_CODE: "42"}, [42, 42, 0]),
    ],
)
def test_exit_codes_by_attempt(annotations: dict[str, str], exits: list[int]) -> None:
    assert [plan(pod(annotations), n + 1).exit_code for n in range(len(exits))] == exits


@pytest.mark.parametrize(
    ("annotations", "label", "code"),
    [
        ({}, "true", 1),
        ({f"{names.KWOK_FAILED}/exit-code": "7"}, "true", 7),
        ({f"{names.KWOK_FAILED}/exit-code": "7"}, "", 0),
    ],
)
def test_kwoks_way_to_fail_a_container(annotations: dict[str, str], label: str, code: int) -> None:
    plain = pod(annotations)
    meta = msgspec.structs.replace(plain.metadata, labels={names.KWOK_FAILED: label})
    assert plan(msgspec.structs.replace(plain, metadata=meta)).exit_code == code


def test_memory_over_the_limit_is_killed_on_the_way() -> None:
    annotations = {names.RUN_DURATION: "10s", names.PEAK_MEMORY: "2Gi", names.OOM_AT: "0.25"}
    over = pod(annotations, resources={"limits": {"memory": "1Gi"}})
    assert plan(over) == Plan(2.5, 137, "OOMKilled")
    under = pod(annotations, resources={"limits": {"memory": "4Gi"}})
    assert plan(under) == Plan(10, 0, "Completed")
    assert plan(pod(annotations)) == Plan(10, 0, "Completed")


@pytest.mark.parametrize(
    ("annotation", "text", "rule"),
    [
        (names.RUN_DURATION, "ten", "is not a duration"),
        (names.RUN_DURATION, "uniform(9s,1s)", "first bound"),
        (names.EXIT_CODE, "256", "from 0 to 255"),
        (names.FAIL_ATTEMPTS, "-1", "whole number"),
        (names.PEAK_MEMORY, "much", "is not a quantity"),
        (names.OOM_AT, "2", "from 0 to 1"),
        (names.IMAGE_PULL, "maybe", "slow(20s)"),
        (names.KWOK_COMPLETE_DELAY, "soon", "is not a duration"),
    ],
)
def test_bad_annotation_is_named_with_its_rule(annotation: str, text: str, rule: str) -> None:
    with pytest.raises(BehaviourError) as caught:
        behaviour_of(pod({annotation: text}), seed=0)
    assert annotation in str(caught.value)
    assert rule in str(caught.value)


def test_all_annotations_are_read() -> None:
    subject = pod({names.KWOK_READY_DELAY: "2s", names.STOP_DURATION: "4s", names.IMAGE_PULL: "slow(20s)"})
    expected = Behaviour("0/u", start_latency=2.0, stop=4.0, pull=20.0)
    assert behaviour_of(subject, seed=0) == expected


def test_attempts_are_counted_over_recreated_pods_of_a_task() -> None:
    def member(name: str, index: str) -> Pod:
        owner = {"kind": "Job", "name": "j", "uid": "job", "controller": True}
        annotations = {names.TASK_SPEC: "worker", names.TASK_INDEX: index}
        meta = {"name": name, "ownerReferences": [owner], "annotations": annotations}
        return msgspec.convert({"metadata": meta}, Pod)

    assert attempt_key(member("j-worker-0", "0")) == attempt_key(member("another-name", "0"))
    assert attempt_key(member("j-worker-0", "0")) != attempt_key(member("j-worker-1", "1"))
    assert attempt_key(pod(uid="x")) == attempt_key(pod(uid="y"))
