"""What may change in a job that is there: one row a rule, object in, messages out."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from tests.unit.admission.objects import TEMPLATE, create, job, task, update
from volcanoio.model import kinds
from volcanoio.model.base import Manifest


def stored(**spec: Any) -> Manifest:
    """A job as admission stored it."""
    volumes = [{"mountPath": "/a", "volumeClaim": {"accessModes": ["ReadWriteOnce"]}}]
    made = create(kinds.JOB, job(task("a", 2), task("b", 1), volumes=volumes, **spec)).object
    assert made is not None
    return made


def changed(**spec: Any) -> Manifest:
    new = stored()
    new["spec"].update(spec)
    return new


def scaled(**fields: Any) -> Manifest:
    new = stored()
    new["spec"]["tasks"][0].update(fields)
    return new


ALLOWED_UPDATES: dict[str, Manifest] = {
    "nothing": stored(),
    "minAvailable": changed(minAvailable=1),
    "priority class": changed(priorityClassName="high"),
    "replicas": scaled(replicas=5, minAvailable=4),
    "generated claim name": changed(
        volumes=[{"mountPath": "/a", "volumeClaim": {"accessModes": ["ReadWriteOnce"]}, "volumeClaimName": "j-pvc-x"}]
    ),
    "metadata": {**stored(), "metadata": {"name": "j", "labels": {"a": "b"}}},
    "without the defaults, as its file says": job(
        task("a", 2), task("b", 1), volumes=[{"mountPath": "/a", "volumeClaim": {"accessModes": ["ReadWriteOnce"]}}]
    ),
}


@pytest.mark.parametrize("new", ALLOWED_UPDATES.values(), ids=ALLOWED_UPDATES)
def test_what_may_change_in_a_job(new: Manifest) -> None:
    assert update(kinds.JOB, stored(), new).messages == ()


REFUSED_UPDATES: dict[str, tuple[Manifest, str]] = {
    "queue": (changed(queue="child"), "spec.queue: job updates may not change fields other than `minAvailable`, "),
    "time to live": (changed(ttlSecondsAfterFinished=5), "spec.ttlSecondsAfterFinished: job updates may not change"),
    "plugins": (changed(plugins={"env": ["x"]}), "spec.plugins: job updates may not change"),
    "maxRetry": (changed(maxRetry=9), "spec.maxRetry: job updates may not change"),
    "image": (
        scaled(template={"spec": {"containers": [{"name": "main", "image": "other"}], "restartPolicy": "Never"}}),
        "spec.tasks[0].template.spec.containers[0].image: job updates may not change",
    ),
    "one more task": (
        changed(tasks=[*stored()["spec"]["tasks"], task("c")]),
        "spec.tasks: job updates may not add or remove tasks; delete the Job and create it anew to change this",
    ),
    "task below its minimum": (scaled(replicas=1), "spec.tasks[0].minAvailable: 'minAvailable' is greater than"),
    "job below its minimum": (
        scaled(replicas=1, minAvailable=1),
        "spec.minAvailable: job 'minAvailable' should not be greater than total replicas in tasks (3 > 2); ",
    ),
    "negative replicas": (scaled(replicas=-1, minAvailable=None), "spec.tasks[0].replicas: 'replicas' < 0 in task: a"),
}


@pytest.mark.parametrize(("new", "message"), REFUSED_UPDATES.values(), ids=REFUSED_UPDATES)
def test_what_may_not_change_in_a_job(new: Manifest, message: str) -> None:
    review = update(kinds.JOB, stored(), new)
    assert not review.allowed
    assert [line for line in review.messages if line.startswith(message)], review.messages


def test_the_same_amount_written_otherwise_is_no_change() -> None:
    def with_cpu(cpu: str) -> Manifest:
        template = deepcopy(TEMPLATE)
        template["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
        return job({"name": "a", "replicas": 1, "template": template})

    assert update(kinds.JOB, with_cpu("1"), with_cpu("1000m")).allowed
    assert not update(kinds.JOB, with_cpu("1"), with_cpu("2")).allowed


def test_a_job_whose_plugin_is_gone_can_still_lose_its_finalizers() -> None:
    before = job(plugins={"gone": []})
    after = deepcopy(before)
    after["metadata"]["finalizers"] = []
    assert update(kinds.JOB, before, after).allowed
