"""What a job is completed with: Volcano's defaults, and plugins that plugins need."""

from __future__ import annotations

from copy import deepcopy

import msgspec
import pytest

from tests.unit.admission.objects import SETTINGS, TEMPLATE, create, job, task
from volcanoio.framework.jobs import JobPlugin
from volcanoio.model import kinds
from volcanoio.model.base import Manifest


def spec_of(reviewed: Manifest | None) -> Manifest:
    assert reviewed is not None
    spec: Manifest = reviewed["spec"]
    return spec


def test_defaults_are_volcanos_and_the_callers_object_stays_as_it_was() -> None:
    given = job({"replicas": 2, "template": TEMPLATE}, task("b", 3, minAvailable=1), queue="")
    before = deepcopy(given)
    review = create(kinds.JOB, given)
    spec = spec_of(review.object)
    assert review.messages == ()
    assert (spec["queue"], spec["schedulerName"], spec["maxRetry"], spec["minAvailable"]) == (
        "default",
        "volcano",
        3,
        3,
    )
    assert [(one["name"], one["minAvailable"], one["maxRetry"]) for one in spec["tasks"]] == [
        ("default0", 2, 3),
        ("b", 1, 3),
    ]
    assert given == before


def test_given_values_are_kept() -> None:
    review = create(kinds.JOB, job(task(maxRetry=7), schedulerName="mine", maxRetry=5, minAvailable=1, queue="fresh"))
    spec = spec_of(review.object)
    assert (spec["schedulerName"], spec["maxRetry"], spec["queue"], spec["tasks"][0]["maxRetry"]) == (
        "mine",
        5,
        "fresh",
        7,
    )


def test_partitions_give_the_tasks_minimum() -> None:
    partitions = {"totalPartitions": 4, "partitionSize": 2, "minPartitions": 3}
    spec = spec_of(create(kinds.JOB, job(task(replicas=8, partitionPolicy=partitions))).object)
    assert (spec["tasks"][0]["minAvailable"], spec["minAvailable"]) == (6, 6)


def test_pods_on_the_hosts_network_find_services() -> None:
    host = deepcopy(TEMPLATE)
    host["spec"]["hostNetwork"] = True
    spec = spec_of(create(kinds.JOB, job({"name": "a", "replicas": 1, "template": host})).object)
    assert spec["tasks"][0]["template"]["spec"]["dnsPolicy"] == "ClusterFirstWithHostNet"


@pytest.mark.parametrize(
    ("plugins", "expected"),
    [
        ({"tensorflow": []}, {"tensorflow", "svc"}),
        ({"mpi": ["--master=main"]}, {"mpi", "svc", "ssh"}),
        ({"pytorch": []}, {"pytorch", "svc"}),
        ({"ray": ["--head=main"]}, {"ray", "svc"}),
        ({"env": None}, {"env"}),
    ],
)
def test_frameworks_bring_the_plugins_they_need(plugins: Manifest, expected: set[str]) -> None:
    review = create(kinds.JOB, job(plugins=plugins))
    assert review.allowed
    assert set(spec_of(review.object)["plugins"]) == expected


class Launcher(JobPlugin):
    """A third party's."""

    name = "launcher"
    needs = ("mpi",)


def test_a_plugin_adds_its_transitive_requirements() -> None:
    settings = msgspec.structs.replace(SETTINGS, job_plugins={**(SETTINGS.job_plugins or {}), "launcher": Launcher})
    given = job(task("master"), plugins={"launcher": [], "svc": ["--disable-network-policy"]})
    review = create(kinds.JOB, given, settings=settings)
    assert review.allowed, review.messages
    plugins = {"launcher": [], "mpi": [], "ssh": [], "svc": ["--disable-network-policy"]}
    assert spec_of(review.object)["plugins"] == plugins
