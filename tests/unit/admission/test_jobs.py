"""Jobs: one row a rule, object in, messages out."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.unit.admission.objects import QUEUES, SETTINGS, TEMPLATE, create, delete, job, task
from volcanoio.model import kinds
from volcanoio.model.base import Manifest


def policy(**fields: Any) -> Manifest:
    return {"action": "RestartJob", **fields}


RULES: dict[str, tuple[Manifest, str]] = {
    "no tasks": (
        {"metadata": {"name": "j"}, "spec": {}},
        "spec.tasks: No task specified in job spec; add at least one task with a pod template",
    ),
    "minAvailable over replicas": (
        job(task(replicas=2), minAvailable=5),
        (
            "spec.minAvailable: job 'minAvailable' should not be greater than total replicas in tasks (5 > 2); "
            "lower minAvailable or raise the tasks' replicas"
        ),
    ),
    "negative minAvailable": (job(minAvailable=-1), "spec.minAvailable: job 'minAvailable' must be >= 0; "),
    "negative maxRetry": (job(maxRetry=-1), "spec.maxRetry: 'maxRetry' cannot be less than zero; give 0 or more"),
    "negative time to live": (job(ttlSecondsAfterFinished=-1), "spec.ttlSecondsAfterFinished: "),
    "minSuccess of nothing": (job(minSuccess=0), "spec.minSuccess: 'minSuccess' must be at least 1; "),
    "duplicate task names": (
        job(task("a"), task("a")),
        "spec.tasks[1].name: duplicated task name a; give every task its own name",
    ),
    "task minAvailable over replicas": (
        job(task("a", 2, minAvailable=3), minAvailable=1),
        (
            "spec.tasks[0].minAvailable: 'minAvailable' is greater than 'replicas' in task: a, job: j (3 > 2); "
            "lower minAvailable or raise replicas"
        ),
    ),
    "negative replicas": (
        job(task(replicas=-1, minAvailable=-1), task("b", 2)),
        "spec.tasks[0].replicas: 'replicas' < 0 in task: main, job: j; ",
    ),
    "unknown event": (
        job(policies=[policy(event="PodEvictd")]),
        (
            'spec.policies[0].event: Invalid value: "PodEvictd": invalid policy event; did you mean "PodEvicted"? '
            "valid events are [* JobUpdated PodEvicted PodFailed PodPending TaskCompleted TaskFailed Unknown]"
        ),
    ),
    "event without meaning in policies": (
        job(policies=[policy(event="OutOfSync")]),
        (
            'spec.policies[0].event: Invalid value: "OutOfSync": invalid policy event; '
            "valid events are [* JobUpdated PodEvicted PodFailed PodPending TaskCompleted TaskFailed Unknown]"
        ),
    ),
    "unknown action": (
        job(task(policies=[policy(action="RestartJobs", event="PodFailed")])),
        (
            'spec.tasks[0].policies[0].action: Invalid value: "RestartJobs": invalid policy action; did you mean '
            '"RestartJob"? valid actions are [AbortJob CompleteJob RestartJob RestartPartition RestartPod RestartTask '
            "ResumeJob TerminateJob]"
        ),
    ),
    "unknown action of an exit code": (
        job(policies=[{"action": "Explode", "exitCode": 3}]),
        'spec.policies[0].action: Invalid value: "Explode": invalid policy action; valid actions are [AbortJob ',
    ),
    "no action": (
        job(policies=[{"event": "PodFailed"}]),
        'spec.policies[0].action: Invalid value: "": invalid policy action; valid actions are [AbortJob ',
    ),
    "neither event nor exit code": (
        job(policies=[policy(event=None)]),
        (
            'spec.policies[0]: either event and exitCode should be specified; give one of them; write "*" in quotes: '
            "unquoted it is a YAML alias"
        ),
    ),
    "event and exit code": (
        job(policies=[policy(event="PodFailed", exitCode=3)]),
        "spec.policies[0]: must not specify event and exitCode simultaneously; make two policies of it",
    ),
    "exit code 0": (
        job(policies=[policy(exitCode=0)]),
        "spec.policies[0].exitCode: 0 is not a valid error code; use event: TaskCompleted for success",
    ),
    "duplicate exit code": (
        job(policies=[policy(exitCode=3), policy(exitCode=3)]),
        "spec.policies[1].exitCode: duplicate exitCode 3; ",
    ),
    "duplicate event": (
        job(policies=[policy(event="PodFailed"), policy(events=["PodFailed"])]),
        "spec.policies[1].event: duplicate event PodFailed across different policy; keep one policy for each event",
    ),
    "any event beside another": (
        job(policies=[policy(event="*"), policy(event="PodFailed")]),
        "spec.policies: if there's * here, no other policy should be here; ",
    ),
    "unknown plugin": (
        job(plugins={"snv": []}),
        'spec.plugins.snv: unable to find job plugin: snv; did you mean "svc"?',
    ),
    "bad plugin argument": (
        job(plugins={"svc": ["--publish"]}),
        (
            'spec.plugins.svc: svc: unknown flag "--publish"; valid values: disable-network-policy, inject-hosts-env, '
            "publish-not-ready-addresses; fix the argument"
        ),
    ),
    "mpi without its master": (
        job(plugins={"mpi": []}),
        "spec.plugins.mpi: The specified mpi master task was not found: master; ",
    ),
    "ray without its head": (
        job(plugins={"ray": ["--head=main1"]}),
        "spec.plugins.ray: the specified ray head task was not found: main1; name a task so, or give --head=TASK",
    ),
    "a cluster too large for TF_CONFIG": (
        job(task("worker", replicas=6000), plugins={"tensorflow": []}),
        "spec.plugins.tensorflow: TF_CONFIG of task worker is ",
    ),
    "unknown queue": (
        job(queue="defualt"),
        (
            'spec.queue: unable to find job queue: queue.scheduling.volcano.sh "defualt" not found; did you mean '
            '"default"?; create it first (vcctl queue create -n defualt)'
        ),
    ),
    "closed queue": (
        job(queue="closed"),
        (
            "spec.queue: can only submit job to queue with state `Open`, queue `closed` status is `Closed`; "
            "open it (vcctl queue operate -n closed -a open) or choose another queue"
        ),
    ),
    "closing queue": (job(queue="closing"), "spec.queue: can only submit job to queue with state `Open`, "),
    "root queue": (job(queue="root"), "spec.queue: can not submit job to root queue; choose a queue below it"),
    "queue with children": (
        job(queue="parent"),
        "spec.queue: can only submit job to leaf queue, queue `parent` has 1 child queues; choose one of them: child",
    ),
    "no containers": (
        job({"name": "a", "replicas": 1, "template": {"spec": {"containers": []}}}),
        "spec.tasks[0].template.spec.containers: Required value; fix the pod template (kubectl explain pod.spec)",
    ),
    "a volume whose name is no text": (
        job({"name": "a", "replicas": 1, "template": {"spec": {**TEMPLATE["spec"], "volumes": [{"name": ["v"]}]}}}),
        "spec.tasks[0].template.spec.volumes[0].name: Invalid value",
    ),
    "a mount whose name is no text": (
        job(
            {
                "name": "a",
                "replicas": 1,
                "template": {
                    "spec": {"containers": [{"name": "m", "image": "i", "volumeMounts": [{"name": {"a": "v"}}]}]}
                },
            }
        ),
        "spec.tasks[0].template.spec.containers[0].volumeMounts[0].name: Not found",
    ),
    "no template": (job({"name": "a", "replicas": 1}), "spec.tasks[0].template.spec: Required value; "),
    "wrong type": (
        job(task(replicas="two"), minAvailable=1),  # type: ignore[arg-type]  # that is the test
        "spec.tasks[0].replicas: Expected `int`, got `str`; see kubectl explain job",
    ),
    "no mount path": (
        job(volumes=[{"volumeClaimName": "c"}]),
        "spec.volumes[0].mountPath: mountPath is required; give the path inside the containers",
    ),
    "duplicate mount path": (
        job(volumes=[{"mountPath": "/a", "volumeClaimName": "c"}, {"mountPath": "/a", "volumeClaimName": "d"}]),
        "spec.volumes[1].mountPath: duplicated mountPath: /a; give each its own path",
    ),
    "claim name": (
        job(volumes=[{"mountPath": "/a", "volumeClaimName": "My_Claim"}]),
        "spec.volumes[0].volumeClaimName: invalid VolumeClaimName My_Claim : a lowercase RFC 1123 subdomain ",
    ),
    "job name too long": (
        job(name="j" * 64),
        f"metadata.name: create job with name {'j' * 64} validate failed name part must be no more than 63 characters",
    ),
    "pod name too long": (
        job(task("t" * 30, 1001), name="j" * 30),
        (
            f"spec.tasks[0].name: create pod with name {'j' * 30}-{'t' * 30}-1000 validate failed name part must be no "
            "more than 63 characters; shorten the names of job and task by 3"
        ),
    ),
    "dependency on nothing": (
        job(task("a", dependsOn={"name": ["b"]})),
        (
            "spec.tasks[0].dependsOn.name: job has dependencies between tasks, but doesn't form a directed acyclic "
            'graph(DAG): there is no task "b"; use one of a'
        ),
    ),
    "circle of dependencies": (
        job(
            task("a", dependsOn={"name": ["b"]}),
            task("b", dependsOn={"name": ["c"]}),
            task("c", dependsOn={"name": ["a"]}),
        ),
        "spec.tasks: job has dependencies between tasks, but doesn't form a directed acyclic graph(DAG): a → b → c → a",
    ),
    "two highest tiers": (
        job(networkTopology={"highestTierAllowed": 1, "highestTierName": "rack"}),
        (
            "spec.networkTopology: must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology "
            "simultaneously; keep one of them"
        ),
    ),
    "partitions of nothing": (
        job(task(replicas=4, partitionPolicy={"totalPartitions": 0, "partitionSize": 2})),
        "spec.tasks[0].partitionPolicy.totalPartitions: 'TotalPartitions' must be greater than 0 in task: main, job: j",
    ),
    "partitions beside replicas": (
        job(task(replicas=4, partitionPolicy={"totalPartitions": 3, "partitionSize": 2})),
        (
            "spec.tasks[0].partitionPolicy: 'Replicas' are not equal to TotalPartitions*PartitionSize in task: main, "
            "job: j (4 ≠ 6); set replicas to 6"
        ),
    ),
    "partitions beside minAvailable": (
        job(
            task(
                replicas=4,
                minAvailable=3,
                partitionPolicy={"totalPartitions": 2, "partitionSize": 2, "minPartitions": 1},
            )
        ),
        (
            "spec.tasks[0].partitionPolicy: 'MinAvailable' is not equal to MinPartitions*PartitionSize in task: main, "
            "job: j (3 ≠ 2); set the task's minAvailable to 2 or leave it out"
        ),
    ),
    "numa policy without whole cpus": (
        job(task(topologyPolicy="single-numa-node")),
        (
            "spec.tasks[0].template.spec.containers[0].resources.requests.cpu: the cpu request isn't an integer in "
            "spec.task[0] container[0]; request whole CPUs or set topologyPolicy to none"
        ),
    ),
}


@pytest.mark.parametrize(("given", "message"), RULES.values(), ids=RULES)
def test_a_bad_job_is_refused_with_field_rule_and_next_step(given: Manifest, message: str) -> None:
    review = create(kinds.JOB, given)
    assert not review.allowed
    assert [line for line in review.messages if line.startswith(message)], review.messages


def test_all_errors_are_reported_together() -> None:
    bad = job(task("a", 1, minAvailable=2), task("a"), queue="absent", plugins={"x": []}, policies=[policy(event="y")])
    assert len(create(kinds.JOB, bad).messages) == 6


GOOD: dict[str, Manifest] = {
    "plain": job(),
    "any event in quotes": job(policies=[policy(event="*")]),
    "several events": job(
        policies=[policy(events=["PodFailed", "PodEvicted"]), policy(exitCode=3), policy(exitCode=4)]
    ),
    "the same event again in one policy": job(policies=[policy(event="PodFailed", events=["PodFailed"])]),
    "queue without a status": job(queue="fresh"),
    "child queue": job(queue="child"),
    "tasks in order": job(task("a"), task("b", dependsOn={"name": ["a"]}), minAvailable=1),
    "diamond": job(
        task("a"),
        task("b", dependsOn={"name": ["a"]}),
        task("c", dependsOn={"name": ["a"]}),
        task("d", dependsOn={"name": ["b", "c"]}),
        minAvailable=1,
    ),
    "no replicas": job(task(replicas=0)),
    "nulls": job(task(policies=None), policies=None, volumes=None, plugins=None, ttlSecondsAfterFinished=None),
}


@pytest.mark.parametrize("given", GOOD.values(), ids=GOOD)
def test_a_good_job_is_allowed_without_a_word(given: Manifest) -> None:
    review = create(kinds.JOB, given)
    assert (review.allowed, review.messages, review.warnings) == (True, (), ())


CONFLICT = (
    "spec.volumes[0]: conflict: If you want to use an existing PVC, just specify VolumeClaimName."
    "If you want to create a new PVC, you do not need to specify VolumeClaimName; "
)
OLD_FORMS: dict[str, tuple[Manifest, str, str, str]] = {
    "volume without a claim": (
        job(volumes=[{"mountPath": "/myinput"}]),
        "spec.volumes[0]: either VolumeClaim or VolumeClaimName must be specified; ",
        "it is made an emptyDir, which ends with each pod; ",
        "name a claim to keep the data",
    ),
    "volume with name and claim": (
        job(volumes=[{"mountPath": "/o", "volumeClaimName": "c", "volumeClaim": {"accessModes": ["ReadWriteOnce"]}}]),
        CONFLICT,
        "claim c is used, and created as described if it is absent; ",
        "keep one of them",
    ),
    "priorityClass": (
        job({"name": "a", "replicas": 1, "template": {"spec": {**TEMPLATE["spec"], "priorityClass": "high"}}}),
        "spec.tasks[0].template.spec.priorityClass: there is no such field; ",
        "it has no effect; ",
        'write "priorityClassName"',
    ),
}


@pytest.mark.parametrize(("given", "rule", "taken_as", "advice"), OLD_FORMS.values(), ids=OLD_FORMS)
def test_older_forms_cause_a_warning_and_are_refused_when_strict(
    given: Manifest, rule: str, taken_as: str, advice: str
) -> None:
    lenient = create(kinds.JOB, given)
    assert lenient.messages == ()
    assert f"{rule}{taken_as}{advice}" in lenient.warnings
    strict = create(kinds.JOB, given, settings=msgspec.structs.replace(SETTINGS, strict=True))
    assert not strict.allowed
    assert f"{rule}{advice}" in strict.messages


def test_jobs_may_be_deleted_and_other_kinds_are_not_looked_at() -> None:
    assert delete(kinds.JOB, "job").allowed
    assert create(kinds.POD, {"metadata": {"name": "p"}}, *QUEUES).allowed


def test_more_pods_than_a_job_can_have_are_refused_and_as_many_are_not() -> None:
    review = create(kinds.JOB, job(task("a", 40_000), task("b", 10_001), minAvailable=1))
    assert any("a job has at most 50000 pods" in message for message in review.messages)
    assert create(kinds.JOB, job(task("a", 40_000), task("b", 10_000), minAvailable=1)).messages == ()


@pytest.mark.parametrize(
    ("given", "reported"),
    [
        (
            job(policies=[policy(event="PodPending", timeout="5 minutes")]),
            "spec.policies[0].timeout: '5 minutes' is not",
        ),
        (job(task(policies=[policy(exitCode=3, timeout="-1s")])), "spec.tasks[0].policies[0].timeout: '-1s' is not"),
        (job(runningEstimate="an hour"), "spec.runningEstimate: 'an hour' is not a duration; write numbers with units"),
    ],
)
def test_a_duration_that_cannot_be_represented_is_refused(given: Manifest, reported: str) -> None:
    (message,) = create(kinds.JOB, given).messages
    assert message.startswith(reported)
