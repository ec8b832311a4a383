"""Simulated logs are a function of the pod and the time."""

from __future__ import annotations

from typing import Any

import pytest

from tests.localcluster.nodes.pods import T0, pod, run_of, stored
from volcanoio.localcluster.nodes.container_runtime import LINES_KEPT, container_log
from volcanoio.localcluster.nodes.pods.lifecycle import advance
from volcanoio.model import names
from volcanoio.model.core import Pod


def at(moment: float, **changes: Any) -> Pod:
    return stored(advance(run_of(pod(**changes)), T0 + moment))


def texts(subject: Pod, moment: float, **options: Any) -> list[str]:
    return [line.decode().partition(" ")[2] for line in container_log(subject, "main", T0 + moment, **options).lines]


ECHO = {"container": {"command": ["sh", "-c", "echo 'hello there'; sleep 4 && echo done"]}}


@pytest.mark.parametrize(
    ("changes", "first"),
    [
        (ECHO, ["hello there", "done"]),
        ({"container": {"command": ["python", "train.py"]}}, ["python train.py"]),
        ({"annotations": {names.SIM_LOG: "epoch 1\nepoch 2"}}, ["epoch 1", "epoch 2"]),
        ({}, ["busybox"]),
    ],
)
def test_logs_begin_with_the_annotated_text(changes: dict[str, Any], first: list[str]) -> None:
    assert texts(at(1, **changes), 1)[: len(first)] == first


def test_grows_while_it_runs_and_ends_with_the_exit_code() -> None:
    annotated = {"annotations": {names.EXIT_CODE: "3", names.LOG_LINES_PER_SECOND: "1"}}
    assert texts(at(2.5, **annotated), 2.5)[1:] == ["running for 1s", "running for 2s"]
    assert texts(at(9, **annotated), 9)[-1] == "exit code 3 (Error)"
    assert container_log(at(9, **annotated), "main", T0 + 9).over
    assert not container_log(at(1, **annotated), "main", T0 + 1).over


def test_previous_is_the_run_before() -> None:
    looping = at(9, restartPolicy="OnFailure", annotations={names.FAIL_ATTEMPTS: "9", names.EXIT_CODE: "7"})
    assert texts(looping, 9, previous=True)[-1] == "exit code 7 (Error)"


def test_a_long_log_keeps_its_last_lines() -> None:
    run = at(100_000, annotations={names.RUN_DURATION: "never"})
    log = container_log(run, "main", T0 + 100_000)
    assert len(log.lines) == LINES_KEPT + 1
    assert log.total == 100_001


def test_lines_begin_with_their_time_and_are_the_same_every_time() -> None:
    subject = at(9)
    first = container_log(subject, "main", T0 + 9)
    assert first == container_log(subject, "main", T0 + 900)
    assert first.lines[0].startswith(b"2027-01-15T08:00:00.000000Z ")
