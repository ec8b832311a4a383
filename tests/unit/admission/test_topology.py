"""Network topologies and NUMA policies are not supported: hard ones are refused, the others are warned of."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.admission.objects import create, job, task, update
from volcanoio.model import kinds
from volcanoio.model.base import Manifest
from volcanoio.model.kinds import Kind

HARD: Manifest = {"mode": "hard", "highestTierAllowed": 1}
BY_DEFAULT: Manifest = {"highestTierName": "rack"}
SOFT: Manifest = {"mode": "soft", "highestTierAllowed": 1}
PARTITIONS: Manifest = {"totalPartitions": 1, "partitionSize": 1}
MODE, TIER = "volcano.sh/network-topology-mode", "volcano.sh/network-topology-highest-tier"
NUMA = "volcano.sh/numa-topology-policy"


def group(**spec: Any) -> Manifest:
    return {"metadata": {"name": "g", "namespace": "ns"}, "spec": {"queue": "default", "minMember": 1, **spec}}


def parts(topology: Manifest) -> list[Manifest]:
    return [{"name": "a", "matchLabelKeys": ["volcano.sh/partition-id"], "networkTopology": topology}]


def cron_job(topology: Manifest) -> Manifest:
    template = {"spec": job(networkTopology=topology)["spec"]}
    return {"metadata": {"name": "c", "namespace": "ns"}, "spec": {"schedule": "@daily", "jobTemplate": template}}


def flow(topology: Manifest) -> Manifest:
    patch = {"jobSpec": {"networkTopology": topology}}
    return {"metadata": {"name": "f", "namespace": "ns"}, "spec": {"flows": [{"name": "a", "patch": patch}]}}


def pod(scheduler: str = "volcano", **annotations: str) -> Manifest:

    return {
        "metadata": {"name": "p", "namespace": "ns", "annotations": annotations},
        "spec": {"schedulerName": scheduler, "containers": [{"name": "main", "image": "busybox"}]},
    }


PLACES: dict[str, tuple[Kind, Any, str]] = {
    "Job": (kinds.JOB, lambda topology: job(networkTopology=topology), "spec.networkTopology"),
    "partition policy": (
        kinds.JOB,
        lambda topology: job(task(partitionPolicy={**PARTITIONS, "networkTopology": topology})),
        "spec.tasks[0].partitionPolicy.networkTopology",
    ),
    "PodGroup": (kinds.POD_GROUP, lambda topology: group(networkTopology=topology), "spec.networkTopology"),
    "sub-group": (
        kinds.POD_GROUP,
        lambda topology: group(subGroupPolicy=parts(topology)),
        "spec.subGroupPolicy[0].networkTopology",
    ),
    "CronJob": (kinds.CRON_JOB, cron_job, "spec.jobTemplate.spec.networkTopology"),
    "JobTemplate": (kinds.JOB_TEMPLATE, lambda topology: job(networkTopology=topology), "spec.networkTopology"),
    "patch of a JobFlow": (kinds.JOB_FLOW, flow, "spec.flows[0].patch.jobSpec.networkTopology"),
}


@pytest.mark.parametrize(("kind", "made", "path"), PLACES.values(), ids=PLACES)
@pytest.mark.parametrize("topology", [HARD, BY_DEFAULT], ids=["hard", "no mode"])
def test_a_hard_topology_is_refused_with_the_fix(kind: Kind, made: Any, path: str, topology: Manifest) -> None:
    (message,) = create(kind, made(topology)).messages
    assert message.startswith(
        f"{path}.mode: hard, which is the default of mode, is not supported yet; "
        'write "mode: soft" (accepted, and without effect so far), or remove networkTopology'
    )


@pytest.mark.parametrize(("kind", "made", "path"), PLACES.values(), ids=PLACES)
def test_a_soft_topology_is_warned_of(kind: Kind, made: Any, path: str) -> None:
    review = create(kind, made(SOFT))
    assert review.messages == ()
    (warning,) = review.warnings
    assert warning.startswith(f"{path}: accepted, but not considered yet; the pods are placed and kept as without it")


UPDATED: dict[str, tuple[Kind, Any]] = {
    name: (kind, made) for name, (kind, made, _) in PLACES.items() if kind is not kinds.JOB
}


@pytest.mark.parametrize(("kind", "made"), UPDATED.values(), ids=UPDATED)
def test_an_update_may_not_bring_a_hard_topology_and_may_leave_a_stored_one(kind: Kind, made: Any) -> None:
    assert not update(kind, made(SOFT), made(HARD)).allowed
    stored = made(HARD)
    without_finalizer = {**stored, "metadata": {**stored["metadata"], "finalizers": []}}
    assert update(kind, stored, without_finalizer).messages == ()


def test_a_stored_job_with_a_hard_topology_can_still_be_scaled() -> None:
    stored = job(task(replicas=1), networkTopology=HARD)
    assert update(kinds.JOB, stored, job(task(replicas=2), networkTopology=HARD)).allowed


def test_the_status_of_a_pod_group_with_a_hard_topology_can_be_written() -> None:
    stored = group(networkTopology=HARD)
    assert update(kinds.POD_GROUP, stored, {**stored, "status": {"phase": "Running"}}).allowed


@pytest.mark.parametrize(
    ("annotations", "rule"),
    [
        ({MODE: "hard"}, "hard is not supported yet"),
        ({MODE: "Hard", TIER: "1"}, "hard is not supported yet"),
        ({MODE: "strict"}, '"strict" means hard, which is not supported yet'),
        ({TIER: "1"}, '"" means hard, which is not supported yet'),
    ],
)
def test_a_hard_topology_of_a_pod_without_a_job_is_refused(annotations: dict[str, str], rule: str) -> None:
    advice = f'write "soft" (accepted, and without effect so far), or remove it and {TIER}'
    for review in (create(kinds.POD, pod(**annotations)), update(kinds.POD, pod(), pod(**annotations))):
        assert review.messages == (f"metadata.annotations[{MODE}]: {rule}; {advice}",)


@pytest.mark.parametrize("key", [MODE, NUMA])
def test_other_topology_annotations_of_a_pod_cause_warnings(key: str) -> None:
    review = create(kinds.POD, pod(**{key: "soft" if key == MODE else "restricted"}))
    assert review.messages == ()
    (warning,) = review.warnings
    assert warning.startswith(f"metadata.annotations[{key}]: accepted, but not considered yet")


@pytest.mark.parametrize(
    "given",
    [
        pod(),
        pod("default-scheduler", **{MODE: "hard"}),  # no PodGroup is made for it
        pod(**{MODE: "hard", "scheduling.k8s.io/group-name": "mine"}),  # its PodGroup has a topology of its own
        pod(**{MODE: "hard", "volcano.sh/job-name": "j", "scheduling.k8s.io/group-name": "podgroup-1"}),
        pod(**{NUMA: "none"}),
    ],
)
def test_empty_annotations_cause_no_warnings(given: Manifest) -> None:
    review = create(kinds.POD, given)
    assert (review.messages, review.warnings) == ((), ())


def test_a_pod_that_was_stored_with_the_annotation_can_be_changed() -> None:
    stored = pod(**{MODE: "hard"})
    assert update(kinds.POD, stored, {**stored, "metadata": {**stored["metadata"], "labels": {"a": "b"}}}).allowed


@pytest.mark.parametrize("policy", ["best-effort", "restricted", "single-numa-node"])
def test_a_numa_policy_of_a_task_is_warned_of(policy: str) -> None:
    whole = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "2"}}}
    given = task(template={"spec": {"restartPolicy": "Never", "containers": [whole]}}, topologyPolicy=policy)
    review = create(kinds.JOB, job(given))
    assert review.messages == ()
    (warning,) = review.warnings
    assert warning.startswith("spec.tasks[0].topologyPolicy: accepted, but not considered yet; ")
    template = {"metadata": {"name": "t", "namespace": "ns"}, "spec": {"tasks": [given]}}
    assert create(kinds.JOB_TEMPLATE, template).warnings == (warning,)


def test_a_job_without_such_fields_is_not_warned_of() -> None:
    assert create(kinds.JOB, job(task(topologyPolicy="none"))).warnings == ()


def test_a_sub_group_policy_without_keys_takes_no_pod() -> None:
    (warning,) = create(kinds.POD_GROUP, group(subGroupPolicy=[{"name": "a"}])).warnings
    assert warning == (
        "spec.subGroupPolicy[0]: a policy without matchLabelKeys takes no pod; "
        "name the labels that distinguish its sub-groups"
    )


def test_hyper_nodes_have_members_and_valid_patterns() -> None:
    def hyper_node(*members: Manifest) -> Manifest:
        return {"metadata": {"name": "h"}, "spec": {"tier": 1, "members": list(members)}}

    def matching(pattern: str) -> Manifest:
        return {"type": "Node", "selector": {"regexMatch": {"pattern": pattern}}}

    exact = {"type": "Node", "selector": {"exactMatch": {"name": "n"}}}
    assert create(kinds.HYPER_NODE, hyper_node(exact, matching("^rack-[0-9]+$"))).messages == ()
    assert create(kinds.HYPER_NODE, hyper_node()).messages == (
        "spec.members: member must have at least one; name the nodes or HyperNodes in it",
    )
    (message,) = create(kinds.HYPER_NODE, hyper_node(exact, matching("a["))).messages
    assert message.startswith(
        'spec.members[1].selector.regexMatch.pattern: "a[" is not a regular expression: missing ]'
    )
    stored = hyper_node(matching("a["))
    assert update(kinds.HYPER_NODE, stored, stored).allowed
