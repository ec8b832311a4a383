"""Warnings for settings of a Job that have no effect."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tests.unit.admission.objects import SETTINGS, TEMPLATE, create, job, task
from volcanoio.model import kinds
from volcanoio.model.base import Manifest


def policy(**fields: Any) -> Manifest:
    return {"action": "RestartJob", **fields}


def described(**metadata: Any) -> Manifest:
    given = job()
    given["metadata"].update(metadata)
    return given


@pytest.mark.parametrize(
    ("given", "reported"),
    [
        (
            job(policies=[policy(event="PodPending")]),
            (
                "spec.policies[0].timeout: every pod is pending at first, so a policy for PodPending without a timeout "
                "never acts; say for how long"
            ),
        ),
        (
            job(task(policies=[policy(events=["PodFailed", "PodPending"])])),
            "spec.tasks[0].policies[0].timeout: every pod is pending at first",
        ),
        (
            job(task("a"), task("b", dependsOn={"name": ["a"], "iteration": "some"}), minAvailable=1),
            'spec.tasks[1].dependsOn.iteration: "some" counts as all',
        ),
        (
            job(task("a", 2), task("b", dependsOn={"name": ["a"]})),
            (
                "spec.minAvailable: 3 pods are to start together, but only 2 do not wait for other tasks (dependsOn), "
                "so none will start; lower minAvailable to 2 or less"
            ),
        ),
        (job(task(replicas=2), minSuccess=3), "spec.minSuccess: 3 pods can never succeed, the job has 2; it will fail"),
        (
            described(annotations={"volcano.sh/cooldown-time": "ten minutes"}),
            "metadata.annotations[volcano.sh/cooldown-time]: it has no effect; 'ten minutes' is not a duration",
        ),
        (
            described(annotations={"volcano.sh/jdb-min-available": "0"}),
            'metadata.annotations[volcano.sh/jdb-min-available]: it has no effect; "0" is neither a number of pods',
        ),
        (
            described(annotations={"volcano.sh/jdb-max-unavailable": "100%"}),
            'metadata.annotations[volcano.sh/jdb-max-unavailable]: it has no effect; "100%" is neither',
        ),
        (
            described(annotations={"volcano.sh/jdb-min-available": "2", "volcano.sh/jdb-max-unavailable": "30%"}),
            "metadata.annotations[volcano.sh/jdb-max-unavailable]: it has no effect; volcano.sh/jdb-min-available is",
        ),
        (
            described(labels={"volcano.sh/preemptable": "yes"}),
            'metadata.labels[volcano.sh/preemptable]: it has no effect; "yes" is neither "true" nor "false"',
        ),
        (
            described(annotations={"volcanoio.dev/policy": "oom_scale_up"}),
            'metadata.annotations[volcanoio.dev/policy]: it has no effect; did you mean "volcanoio.dev/policies"?',
        ),
        (
            described(annotations={"policy-argument.volcanoio.dev/oom_scale_up": "{}"}),
            "metadata.annotations[policy-argument.volcanoio.dev/oom_scale_up]: it has no effect; did you mean",
        ),
        (
            job(plugins={"pytorch": ["--master=boss"]}),
            "spec.plugins.pytorch: there is no task boss, so no pod gets MASTER_ADDR; name a task so, or give --master",
        ),
        (
            job(task("master"), task("wroker"), plugins={"pytorch": []}),
            "spec.plugins.pytorch: there is no task worker, so no worker has a RANK",
        ),
        (job(task("master"), plugins={"mpi": []}), "spec.plugins.mpi: there is no task worker, so the master gets no"),
        (
            job(task("ps"), task("trainer"), plugins={"tensorflow": []}),
            "spec.plugins.tensorflow: no role is that of task trainer, so TF_CONFIG leaves it out",
        ),
        (
            job(task("ps"), task("worker"), plugins={"tensorflow": ["--chief=boss"]}),
            "spec.plugins.tensorflow: there is no task boss, so the cluster has no chief",
        ),
        (job(plugins={"hcclrank": []}), "spec.plugins.hcclrank: there is neither a task master nor worker"),
        (
            job(task("head"), plugins={"ray": []}),
            "spec.plugins.ray: task head has no container head, so nothing starts ray in it",
        ),
    ],
)
def test_notifications_of_the_extender(given: Manifest, reported: str) -> None:
    review = create(kinds.JOB, given)
    assert review.allowed, review.messages
    (warning,) = review.warnings
    assert warning.startswith(reported)


@pytest.mark.parametrize(
    "given",
    [
        job(policies=[policy(event="PodPending", timeout="10m"), policy(event="PodFailed")]),
        job(task("a"), task("b", dependsOn={"name": ["a"], "iteration": "any"}), minSuccess=2, minAvailable=1),
        described(annotations={"volcano.sh/cooldown-time": "1h30m", "volcano.sh/jdb-min-available": "99%"}),
        described(annotations={"volcanoio.dev/policies": "a", "policy-arguments.volcanoio.dev/a": "{}"}),
        job(task("master"), plugins={"pytorch": []}),
        job(task("master"), task("worker"), plugins={"pytorch": [], "hcclrank": [], "mpi": []}),
        job(task("worker"), plugins={"tensorflow": [], "hcclrank": []}),
        job(task("chief"), task("evaluator"), plugins={"tensorflow": []}),
    ],
)
def test_a_setting_with_effect_is_not_reported(given: Manifest) -> None:
    assert create(kinds.JOB, given).warnings == ()


def test_missing_schedulers_are_reported_if_the_existing_ones_are_known() -> None:
    given = job(
        task(template={"spec": {**TEMPLATE["spec"], "schedulerName": "default-scheduler"}}), schedulerName="vulcano"
    )
    assert create(kinds.JOB, given).warnings == ()
    settings = replace(SETTINGS, schedulers=("volcano", "default-scheduler"))
    (warning,) = create(kinds.JOB, given, settings=settings).warnings
    assert warning == (
        'spec.schedulerName: no scheduler here is named "vulcano", so its pods stay Pending; use volcano'
    )
