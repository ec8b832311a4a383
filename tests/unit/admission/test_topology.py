"""Network topologies are accepted wherever they can be written; NUMA policies without effect are warned of."""

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


PLACES: dict[str, tuple[Kind, Any]] = {
    "Job": (kinds.JOB, lambda topology: job(networkTopology=topology)),
    "partition policy": (
        kinds.JOB,
        lambda topology: job(task(partitionPolicy={**PARTITIONS, "networkTopology": topology})),
    ),
    "PodGroup": (kinds.POD_GROUP, lambda topology: group(networkTopology=topology)),
    "sub-group": (
        kinds.POD_GROUP,
        lambda topology: group(subGroupPolicy=parts(topology)),
    ),
    "CronJob": (kinds.CRON_JOB, cron_job),
    "JobTemplate": (kinds.JOB_TEMPLATE, lambda topology: job(networkTopology=topology)),
    "patch of a JobFlow": (kinds.JOB_FLOW, flow),
}


@pytest.mark.parametrize(("kind", "made"), PLACES.values(), ids=PLACES)
@pytest.mark.parametrize("topology", [HARD, BY_DEFAULT, SOFT], ids=["hard", "no mode", "soft"])
def test_network_topologies_are_accepted(kind: Kind, made: Any, topology: Manifest) -> None:
    review = create(kind, made(topology))
    assert (review.messages, review.warnings) == ((), ())


@pytest.mark.parametrize("policy", ["none", "best-effort", "restricted", "single-numa-node"])
def test_numa_policies_of_a_pod_are_accepted(policy: str) -> None:
    review = create(kinds.POD, pod(**{NUMA: policy}))
    assert (review.messages, review.warnings) == ((), ())


def test_an_unknown_numa_policy_of_a_pod_is_warned_of() -> None:
    (warning,) = create(kinds.POD, pod(**{NUMA: "strict"})).warnings
    rule, advice = '"strict" is no policy, and counts as none', "none, best-effort, restricted, single-numa-node"
    assert warning == f"metadata.annotations[{NUMA}]: {rule}; write one of {advice}"


@pytest.mark.parametrize(
    "given",
    [
        pod(),
        pod("default-scheduler", **{NUMA: "strict"}),  # no PodGroup is made for it
        pod(**{NUMA: "strict", "scheduling.k8s.io/group-name": "mine"}),
        pod(**{NUMA: "strict", "volcano.sh/job-name": "j", "scheduling.k8s.io/group-name": "podgroup-1"}),
        pod(**{MODE: "hard", TIER: "1"}),
        pod(**{NUMA: "none"}),
    ],
)
def test_empty_annotations_cause_no_warnings(given: Manifest) -> None:
    review = create(kinds.POD, given)
    assert (review.messages, review.warnings) == ((), ())


@pytest.mark.parametrize("policy", ["best-effort", "restricted", "single-numa-node"])
def test_a_numa_policy_of_pods_that_get_no_cpu_exclusively_is_warned_of(policy: str) -> None:
    whole = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "2"}}}
    given = task(template={"spec": {"restartPolicy": "Never", "containers": [whole]}}, topologyPolicy=policy)
    review = create(kinds.JOB, job(given))
    assert review.messages == ()
    (warning,) = review.warnings
    assert warning.startswith("spec.tasks[0].topologyPolicy: it has no effect: kubelets align only pods whose ")
    template = {"metadata": {"name": "t", "namespace": "ns"}, "spec": {"tasks": [given]}}
    assert create(kinds.JOB_TEMPLATE, template).warnings == (warning,)


def test_a_numa_policy_of_guaranteed_pods_is_accepted() -> None:
    amounts = {"cpu": "2", "memory": "1Gi"}
    whole = {"name": "main", "image": "busybox", "resources": {"limits": amounts}}
    given = task(
        template={"spec": {"restartPolicy": "Never", "containers": [whole]}}, topologyPolicy="single-numa-node"
    )
    review = create(kinds.JOB, job(given))
    assert (review.messages, review.warnings) == ((), ())


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
