"""Plugin resourcequota: jobs are enqueued only if their minimum fits into the quotas of their namespace."""

from __future__ import annotations

from typing import Any

from tests.scenario.scheduling.harness import Scenario, World, group, node, pods, scenarios
from tests.scenario.scheduling.quotas import CONF, quota
from volcanoio.model.base import Manifest


def test_a_job_waits_until_its_minimum_fits_beside_what_is_used() -> None:
    world = World(
        node("n1"),
        quota("tight", {"cpu": "4", "memory": "8Gi"}, {"cpu": "3", "memory": "0"}),
        group("a", 1, minResources={"cpu": "2", "memory": "1Gi"}),
        conf=CONF,
    )
    world.run()
    assert world.phase("a") == "Pending"
    world.put(quota("tight", {"cpu": "4", "memory": "8Gi"}, {"cpu": "1", "memory": "0"}))
    world.run()
    assert world.phase("a") == "Inqueue"


def test_the_refusal_names_requested_used_and_limited_amounts_of_insufficient_resources() -> None:
    world = World(
        quota("tight", {"cpu": "4", "memory": "8Gi"}, {"cpu": "3", "memory": "1Gi"}),
        group("a", 1, minResources={"cpu": "2", "memory": "1Gi"}),
        conf=CONF,
    )
    world.run(3)
    texts = {message for name, _, message in world.recorded if name == "a"}
    assert "resource quota insufficient, requested: cpu=2, used: cpu=3, limited: cpu=4" in texts


def test_the_demand_of_an_enqueued_job_counts_until_its_pods_exist() -> None:
    world = World(
        quota("tight", {"cpu": "4"}),
        group("a", 2, phase="Inqueue", minResources={"cpu": "4"}),
        group("b", 1, minResources={"cpu": "2"}),
        conf=CONF,
    )
    world.run()
    assert world.phase("b") == "Pending"
    for member in pods("a", 2, "a", cpu="2"):  # the quota controller will count these pods
        world.put(member)
    world.run()
    assert world.phase("b") == "Inqueue"


def in_namespace(name: str, manifest: Manifest) -> Manifest:
    """Move a manifest to another namespace, and return it."""
    manifest["metadata"]["namespace"] = name
    return manifest


def one_scope(name: str, operator: str, *values: str) -> Manifest:
    """Return a scopeSelector of one expression."""
    return {"scopeSelector": {"matchExpressions": [{"scopeName": name, "operator": operator, "values": list(values)}]}}


@scenarios(
    Scenario(
        name="jobs enqueued in the same cycle are counted one after another",
        cluster=[
            quota("tight", {"cpu": "4"}),
            *(group(name, 1, minResources={"cpu": "2"}) for name in ("a", "b", "c")),
        ],
        phases={"a": "Inqueue", "b": "Inqueue", "c": "Pending"},
    ),
    Scenario(
        name="a quota of requests.cpu limits minResources of that name only",
        cluster=[
            quota("requests", {"requests.cpu": "1"}),
            group("a", 1, minResources={"cpu": "2"}),
            group("b", 1, minResources={"cpu": "2", "requests.cpu": "2"}),
        ],
        phases={"a": "Inqueue", "b": "Pending"},
    ),
    Scenario(
        name="a job without minResources is enqueued",
        cluster=[quota("none", {"cpu": "0"}), group("a", 1)],
        phases={"a": "Inqueue"},
    ),
    Scenario(
        name="a job outside the scope of a quota does not use it up",
        cluster=[
            quota("high", {"cpu": "2"}, **one_scope("PriorityClass", "In", "high")),
            group("a", 1, minResources={"cpu": "2"}),
            group("b", 1, minResources={"cpu": "2"}, priorityClassName="high"),
            group("c", 1, minResources={"cpu": "1"}, priorityClassName="high"),
        ],
        phases={"a": "Inqueue", "b": "Inqueue", "c": "Pending"},
    ),
    conf=CONF,
)
def test_quotas(scenario: Scenario) -> None:
    scenario.check()


def test_a_quota_of_another_namespace_does_not_count() -> None:
    elsewhere = in_namespace("other", group("c", 1, minResources={"cpu": "2"}))
    world = World(quota("none", {"cpu": "0"}), group("a", 1), elsewhere, conf=CONF)
    world.cycle()
    assert world.phase("a") == "Inqueue"
    assert world.state.ledger.jobs["other/c"].phase == "Inqueue"


ACROSS_NAMESPACES = {
    "podAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 1, "podAffinityTerm": {"topologyKey": "zone", "namespaces": ["other"]}}
        ]
    }
}


def exceeding(scopes: Manifest, **member: Any) -> list[Manifest]:
    """Return a quota with these scopes, and a job that exceeds it if its pods are in scope."""
    members = pods("a", 2, "a", **{"cpu": "1", **member})
    return [quota("q", {"cpu": "1"}, **scopes), group("a", 2, minResources={"cpu": "2"}), *members]


DEADLINE = {"activeDeadlineSeconds": 9}
COUNTED, NOT_COUNTED = {"a": "Pending"}, {"a": "Inqueue"}


@scenarios(
    Scenario(
        name="Terminating counts pods with a deadline",
        cluster=exceeding({"scopes": ["Terminating"]}, spec=DEADLINE),
        phases=COUNTED,
    ),
    Scenario(
        name="Terminating does not count pods without a deadline",
        cluster=exceeding({"scopes": ["Terminating"]}),
        phases=NOT_COUNTED,
    ),
    Scenario(
        name="NotTerminating counts pods without a deadline",
        cluster=exceeding({"scopes": ["NotTerminating"]}),
        phases=COUNTED,
    ),
    Scenario(
        name="NotTerminating does not count pods with a deadline",
        cluster=exceeding({"scopes": ["NotTerminating"]}, spec=DEADLINE),
        phases=NOT_COUNTED,
    ),
    Scenario(
        name="NotBestEffort counts pods with requests",
        cluster=exceeding({"scopes": ["NotBestEffort"]}),
        phases=COUNTED,
    ),
    Scenario(
        name="BestEffort does not count pods with requests",
        cluster=exceeding({"scopes": ["BestEffort"]}),
        phases=NOT_COUNTED,
    ),
    Scenario(
        name="PriorityClass In counts pods of a listed class",
        cluster=exceeding(one_scope("PriorityClass", "In", "high"), spec={"priorityClassName": "high"}),
        phases=COUNTED,
    ),
    Scenario(
        name="PriorityClass In does not count pods without class",
        cluster=exceeding(one_scope("PriorityClass", "In", "high")),
        phases=NOT_COUNTED,
    ),
    Scenario(
        name="PriorityClass Exists counts pods of any class",
        cluster=exceeding(one_scope("PriorityClass", "Exists"), spec={"priorityClassName": "low"}),
        phases=COUNTED,
    ),
    Scenario(
        name="PriorityClass DoesNotExist does not count pods with a class",
        cluster=exceeding(one_scope("PriorityClass", "DoesNotExist"), spec={"priorityClassName": "low"}),
        phases=NOT_COUNTED,
    ),
    Scenario(
        name="PriorityClass NotIn counts pods of a class that is not listed",
        cluster=exceeding(one_scope("PriorityClass", "NotIn", "high"), spec={"priorityClassName": "low"}),
        phases=COUNTED,
    ),
    Scenario(
        name="CrossNamespacePodAffinity counts pods with terms for other namespaces",
        cluster=exceeding({"scopes": ["CrossNamespacePodAffinity"]}, spec={"affinity": ACROSS_NAMESPACES}),
        phases=COUNTED,
    ),
    Scenario(
        name="CrossNamespacePodAffinity does not count pods without terms",
        cluster=exceeding({"scopes": ["CrossNamespacePodAffinity"]}),
        phases=NOT_COUNTED,
    ),
    Scenario(
        name="a quota counts only pods that are in all of its scopes",
        cluster=exceeding({"scopes": ["NotTerminating", "NotBestEffort"]}, spec=DEADLINE),
        phases=NOT_COUNTED,
    ),
    conf=CONF,
)
def test_scopes_of_pods(scenario: Scenario) -> None:
    scenario.check()


TWO_WORKERS_AND_A_BEST_EFFORT_DRIVER = [
    group("a", 3, minResources={"pods": "3", "cpu": "2"}),
    *pods("worker", 2, "a", cpu="1"),
    *pods("driver", 1, "a"),
]


@scenarios(
    Scenario(
        name="a quota of one best-effort pod allows a job with one",
        cluster=[quota("q", {"pods": "1"}, scopes=["BestEffort"]), *TWO_WORKERS_AND_A_BEST_EFFORT_DRIVER],
        phases={"a": "Inqueue"},
    ),
    Scenario(
        name="a quota of no best-effort pods does not allow a job with one",
        cluster=[quota("q", {"pods": "0"}, scopes=["BestEffort"]), *TWO_WORKERS_AND_A_BEST_EFFORT_DRIVER],
        phases={"a": "Pending"},
    ),
    Scenario(
        name="a quota of two pods with requests allows a job with two and a best-effort pod",
        cluster=[
            quota("q", {"cpu": "2", "pods": "2"}, scopes=["NotBestEffort"]),
            *TWO_WORKERS_AND_A_BEST_EFFORT_DRIVER,
        ],
        phases={"a": "Inqueue"},
    ),
    conf=CONF,
)
def test_only_pods_in_scope_of_a_job_count(scenario: Scenario) -> None:
    scenario.check()


def without_pods(scopes: Manifest) -> list[Manifest]:
    """Return a quota with these scopes, and a job of class high without pods, which exceeds it if it is in scope."""
    return [
        quota("q", {"cpu": "1"}, **scopes),
        group("a", 1, minResources={"cpu": "2"}, priorityClassName="high"),
    ]


@scenarios(
    Scenario(
        name="NotTerminating counts a job without pods",
        cluster=without_pods({"scopes": ["NotTerminating"]}),
        phases=COUNTED,
    ),
    Scenario(
        name="Terminating does not count a job without pods",
        cluster=without_pods({"scopes": ["Terminating"]}),
        phases=NOT_COUNTED,
    ),
    Scenario(
        name="NotBestEffort counts a job without pods that has minResources",
        cluster=without_pods({"scopes": ["NotBestEffort"]}),
        phases=COUNTED,
    ),
    Scenario(
        name="BestEffort does not count a job without pods that has minResources",
        cluster=without_pods({"scopes": ["BestEffort"]}),
        phases=NOT_COUNTED,
    ),
    Scenario(
        name="PriorityClass In counts a job without pods of a listed class",
        cluster=without_pods(one_scope("PriorityClass", "In", "high")),
        phases=COUNTED,
    ),
    Scenario(
        name="PriorityClass In does not count a job without pods of another class",
        cluster=without_pods(one_scope("PriorityClass", "In", "low")),
        phases=NOT_COUNTED,
    ),
    Scenario(
        name="CrossNamespacePodAffinity does not count a job without pods",
        cluster=without_pods({"scopes": ["CrossNamespacePodAffinity"]}),
        phases=NOT_COUNTED,
    ),
    Scenario(
        name="VolumeAttributesClass does not count a job without pods",
        cluster=without_pods({"scopes": ["VolumeAttributesClass"]}),
        phases=NOT_COUNTED,
    ),
    conf=CONF,
)
def test_scopes_of_jobs_without_pods(scenario: Scenario) -> None:
    scenario.check()
