"""What may change in a job that is there: one row a rule, object in, messages out."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from tests.unit.admission.objects import TEMPLATE, create, job, task, update
from volcanoio.engine.admission.jobs import FREE_KEYS, ZERO_IS_ABSENT
from volcanoio.model import kinds
from volcanoio.model.base import Manifest
from volcanoio.model.crds.definitions import DEFINITIONS


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
def test_allowed_changes_of_a_job(new: Manifest) -> None:
    assert update(kinds.JOB, stored(), new).messages == ()


REFUSED_UPDATES: dict[str, tuple[Manifest, str]] = {
    "queue": (changed(queue="child"), "spec.queue: job updates may not change fields other than `minAvailable`, "),
    "time to live": (changed(ttlSecondsAfterFinished=5), "spec.ttlSecondsAfterFinished: job updates may not change"),
    "plugins": (changed(plugins={"env": ["x"]}), "spec.plugins.env: job updates may not change"),
    "maxRetry": (changed(maxRetry=9), "spec.maxRetry: job updates may not change"),
    "image": (
        scaled(template={"spec": {"containers": [{"name": "main", "image": "other"}], "restartPolicy": "Never"}}),
        "spec.tasks[0].template.spec.containers[0].image: job updates may not change",
    ),
    "one more task": (
        changed(tasks=[*stored()["spec"]["tasks"], task("c")]),
        "spec.tasks: job updates may not add or remove tasks; delete the Job and create it again to change this",
    ),
    "task below its minimum": (
        scaled(replicas=1),
        "spec.tasks[0].minAvailable: 'minAvailable' must be <= 'replicas' in task: a (2 > 1); ",
    ),
    "job below its minimum": (
        scaled(replicas=1, minAvailable=1),
        "spec.minAvailable: job 'minAvailable' must not be greater than total replicas (3 > 2); ",
    ),
    "negative replicas": (
        scaled(replicas=-1, minAvailable=None),
        "spec.tasks[0].replicas: 'replicas' must be >= 0 in task: a; ",
    ),
}


@pytest.mark.parametrize(("new", "message"), REFUSED_UPDATES.values(), ids=REFUSED_UPDATES)
def test_refused_changes_of_a_job(new: Manifest, message: str) -> None:
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


def test_a_job_with_arguments_that_another_admission_let_in_can_be_scaled() -> None:
    plugins = {"svc": ["--new-flag=1"]}
    assert update(kinds.JOB, job(plugins=plugins), job(task(replicas=5), plugins=plugins)).messages == ()
    assert create(kinds.JOB, job(plugins=plugins)).messages


def test_a_job_whose_plugin_is_gone_can_still_lose_its_finalizers() -> None:
    before = job(plugins={"gone": []})
    after = deepcopy(before)
    after["metadata"]["finalizers"] = []
    assert update(kinds.JOB, before, after).allowed


def with_pod(spec: Manifest | None = None, container: Manifest | None = None, **job_spec: Any) -> Manifest:
    """A job whose pod has these fields beside the usual ones."""
    pod = {"containers": [{"name": "main", "image": "busybox", **(container or {})}], **(spec or {})}
    return job({"name": "a", "replicas": 1, "template": {"spec": pod}}, **job_spec)


def with_claim(**claim: Any) -> Manifest:
    return with_pod(volumes=[{"mountPath": "/a", "volumeClaim": {"accessModes": ["ReadWriteOnce"], **claim}}])


POD = "spec.tasks[0].template.spec"
CHANGES_OF_MEANING: dict[str, tuple[Manifest, Manifest, str]] = {
    "a plugin without arguments is swapped": (
        with_pod(plugins={"svc": []}),
        with_pod(plugins={"env": []}),
        "spec.plugins.env",
    ),
    "a plugin without arguments is added": (with_pod(plugins={}), with_pod(plugins={"ssh": []}), "spec.plugins.ssh"),
    "the first plugin is added": (with_pod(), with_pod(plugins={"env": None}), "spec.plugins.env"),
    "a plugin is removed": (with_pod(plugins={"env": []}), with_pod(plugins=None), "spec.plugins.env"),
    "an empty label is required of nodes": (
        with_pod(),
        with_pod({"nodeSelector": {"gpu": ""}}),
        f"{POD}.nodeSelector.gpu",
    ),
    "a limit of nothing": (
        with_pod(),
        with_pod(container={"resources": {"limits": {"cpu": "0"}}}),
        f"{POD}.containers[0].resources.limits.cpu",
    ),
    "deleted as soon as it ends": (with_pod(), with_pod(ttlSecondsAfterFinished=0), "spec.ttlSecondsAfterFinished"),
    "killed at once": (
        with_pod(),
        with_pod({"terminationGracePeriodSeconds": 0}),
        f"{POD}.terminationGracePeriodSeconds",
    ),
    "run as root": (
        with_pod(),
        with_pod({"securityContext": {"runAsUser": 0}}),
        f"{POD}.securityContext",
    ),
    "no token": (
        with_pod(),
        with_pod({"automountServiceAccountToken": False}),
        f"{POD}.automountServiceAccountToken",
    ),
    "a claim of no class": (
        with_claim(),
        with_claim(storageClassName=""),
        "spec.volumes[0].volumeClaim.storageClassName",
    ),
    "a claim is made": (
        with_pod(volumes=[{"mountPath": "/a"}]),
        with_pod(volumes=[{"mountPath": "/a", "volumeClaim": {}}]),
        "spec.volumes[0].volumeClaim",
    ),
}


@pytest.mark.parametrize(("old", "new", "path"), CHANGES_OF_MEANING.values(), ids=CHANGES_OF_MEANING)
def test_an_empty_value_is_not_an_absent_one_where_that_differs(old: Manifest, new: Manifest, path: str) -> None:
    for before, after in ((old, new), (new, old)):
        messages = update(kinds.JOB, before, after).messages
        assert any(line.partition(": ")[0] == path for line in messages), messages


SAME_MEANING: dict[str, tuple[Manifest, Manifest]] = {
    "no plugins": (with_pod(), with_pod(plugins={})),
    "no arguments": (with_pod(plugins={"env": None}), with_pod(plugins={"env": []})),
    "no selector": (with_pod(), with_pod({"nodeSelector": {}})),
    "no resources": (with_pod(), with_pod(container={"resources": {"limits": {}}})),
    "false as by default": (
        with_pod({"hostNetwork": False}, {"volumeMounts": [{"name": "v", "mountPath": "/a", "readOnly": False}]}),
        with_pod(container={"volumeMounts": [{"name": "v", "mountPath": "/a"}]}),
    ),
    "no delay": (
        with_pod(container={"readinessProbe": {"exec": {"command": ["a"]}, "initialDelaySeconds": 0}}),
        with_pod(container={"readinessProbe": {"exec": {"command": ["a"]}}}),
    ),
    "no priority class and no arguments": (with_pod(), with_pod({"priorityClassName": ""}, {"args": []})),
    "no metadata": (
        with_pod(),
        job(
            {
                "name": "a",
                "replicas": 1,
                "template": {"metadata": {}, "spec": {"containers": [{"name": "main", "image": "busybox"}]}},
            }
        ),
    ),
    "the same size": (
        with_pod({"volumes": [{"name": "v", "emptyDir": {"sizeLimit": "1Gi"}}]}),
        with_pod({"volumes": [{"name": "v", "emptyDir": {"sizeLimit": "1024Mi"}}]}),
    ),
}


@pytest.mark.parametrize(("old", "new"), SAME_MEANING.values(), ids=SAME_MEANING)
def test_an_empty_value_is_an_absent_one_where_go_clients_leave_it_out(old: Manifest, new: Manifest) -> None:
    for before, after in ((old, new), (new, old)):
        assert update(kinds.JOB, before, after).messages == ()


def test_the_fields_that_are_compared_in_a_way_of_their_own_are_those_of_the_schema() -> None:
    definition = next(each for each in DEFINITIONS if each.kind is kinds.JOB)
    (version,) = definition.manifest()["spec"]["versions"]
    maps: set[str] = set()
    scalars: set[str] = set()

    def visit(schema: Manifest, name: str) -> None:
        if "additionalProperties" in schema:
            maps.add(name)
        if schema.get("type") in ("integer", "boolean"):
            scalars.add(name)
        for field, child in schema.get("properties", {}).items():
            visit(child, field)
        if "items" in schema:
            visit(schema["items"], "")

    visit(version["schema"]["openAPIV3Schema"]["properties"]["spec"], "spec")
    assert maps == FREE_KEYS
    assert scalars >= ZERO_IS_ABSENT
