"""The files of config/admission: admission by the API server itself, while no webhook is registered."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from tests.realcluster.admission.objects import (
    CHANGES,
    REFUSED,
    SCALED,
    STORED,
    UPDATE_RULE,
    WITHOUT_DEFAULTS,
    Obj,
    command,
    job,
    of_flow,
    pod,
    pod_group,
    queue,
    task,
)
from tests.realcluster.admission.world import CONTROLLERS, World
from volcanoio.model.packaged import config_path

GATE, QUEUE_NAME = "scheduling.volcano.sh/queue-allocation-gate", "scheduling.volcano.sh/queue-name"
USE = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "use-fast"},
    "rules": [
        {"apiGroups": ["scheduling.volcano.sh"], "resources": ["queues"], "resourceNames": ["fast"], "verbs": ["use"]}
    ],
}


def _is_refused(world: World, case: str) -> bool:
    return world.kubectl("create", "--dry-run=server", "-f", "-", given=REFUSED[case][0]).returncode != 0


@pytest.fixture(scope="module")
def policies(world: World) -> Iterator[World]:
    """The policies are in force, and removed afterwards."""
    world.do("apply", "-f", str(config_path("admission")))
    for case in ("no task", "own parent", "flow", "cron name", "budget"):  # each policy takes effect on its own
        world.until(partial(_is_refused, world, case))
    yield world
    world.do("delete", "-f", str(config_path("admission")))


def test_the_api_server_accepts_every_expression(policies: World) -> None:
    def checked() -> dict[str, object]:
        items = json.loads(policies.do("get", "validatingadmissionpolicies", "-o", "json"))["items"]
        return {each["metadata"]["name"]: each.get("status", {}).get("typeChecking") for each in items}

    policies.until(lambda: None not in checked().values())
    assert set(map(json.dumps, checked().values())) == {"{}"}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(policies: World, case: str) -> None:
    obj, reason = REFUSED[case]
    assert reason in policies.refusal(obj)


def test_defaults(policies: World) -> None:
    hosts = task(2)
    hosts["template"] = {"spec": {**hosts["template"]["spec"], "hostNetwork": True}}
    parts = task(4, name="b", partitionPolicy={"totalPartitions": 2, "partitionSize": 2, "minPartitions": 1})
    spec = policies.create(job(hosts, parts, name="policies", plugins={"mpi": []}))["spec"]
    assert (spec["queue"], spec["schedulerName"], spec["maxRetry"], spec["minAvailable"]) == (
        "default",
        "volcano",
        3,
        4,
    )
    assert spec["plugins"] == {"mpi": [], "ssh": [], "svc": []}
    first, second = spec["tasks"]
    assert (first["name"], first["minAvailable"], first["maxRetry"]) == ("default0", 2, 3)
    assert first["template"]["spec"]["dnsPolicy"] == "ClusterFirstWithHostNet"
    assert (second["name"], second["minAvailable"]) == ("b", 2)
    annotations = {"volcano.sh/hierarchy": "a/b", "volcano.sh/hierarchy-weights": "1/2"}
    made = queue("policies")
    made["metadata"]["annotations"] = annotations
    stored = policies.create(made)
    assert stored["spec"]["reclaimable"] is True
    assert stored["metadata"]["annotations"] == {
        "volcano.sh/hierarchy": "root/a/b",
        "volcano.sh/hierarchy-weights": "1/1/2",
    }


def test_a_pod_group_takes_the_queue_of_its_namespace(policies: World) -> None:
    policies.do("annotate", "namespace", "grouped", "scheduling.volcano.sh/queue-name=policies")
    group = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "spec": {"minMember": 1}}
    stored = policies.create({**group, "metadata": {"name": "g", "namespace": "grouped"}})
    assert stored["spec"]["queue"] == "policies"
    policies.do("annotate", "namespace", "grouped", "scheduling.volcano.sh/queue-name-")


@pytest.fixture(scope="module")
def stored(policies: World) -> Iterator[World]:
    policies.create(STORED)
    yield policies
    policies.do("delete", "vcjob", "stored")


@pytest.mark.parametrize("case", CHANGES)
def test_changes_of_a_job_are_refused(stored: World, case: str) -> None:
    assert UPDATE_RULE in stored.update(CHANGES[case])


@pytest.mark.parametrize("changes", [SCALED, WITHOUT_DEFAULTS], ids=["scaled", "without defaults"])
def test_changes_of_a_job_are_allowed(stored: World, changes: list[Obj]) -> None:
    assert stored.update(changes) == ""


def test_the_gate_is_added_where_the_pod_asks_for_it(policies: World) -> None:
    annotations = {GATE: "true"}
    dry = ("create", "--dry-run=server", "-o", "json", "-f", "-")

    def gates(**spec: Any) -> object:
        made = policies.do(*dry, given=pod("gated", annotations=annotations, **spec))
        return json.loads(made)["spec"].get("schedulingGates")

    policies.until(lambda: gates(schedulerName="volcano") == [{"name": GATE}])
    other = {"name": "example.com/other"}
    assert gates(schedulerName="volcano", schedulingGates=[other]) == [other, {"name": GATE}]
    assert gates(schedulerName="volcano", schedulingGates=[{"name": GATE}]) == [{"name": GATE}]
    assert gates() is None


def test_default_and_root_are_not_deleted(policies: World) -> None:
    policies.create(queue("default"))
    assert "`default` queue can not be deleted" in policies.kubectl("delete", "queue", "default").stderr


@pytest.fixture(scope="module")
def restricted(policies: World) -> Iterator[World]:
    """The queue fast is restricted, and bob and the service account runner may use it."""
    made = queue("fast")
    made["metadata"]["labels"] = {"volcanoio.dev/restricted": "true"}
    policies.create(made)
    policies.do("create", "-f", "-", given=USE)
    policies.do("create", "clusterrolebinding", "use-fast", "--clusterrole=use-fast", "--user=bob",
                "--serviceaccount=default:runner")  # fmt: skip
    policies.do("create", "serviceaccount", "runner")
    using = job(queue="fast", name="fast")
    dry = ("create", "--dry-run=server", "-f", "-")
    policies.until(lambda: "may not use queue fast" in policies.kubectl(*dry, given=using, user="alice").stderr)
    policies.until(lambda: not policies.kubectl(*dry, given=using, user="bob").returncode)
    yield policies
    policies.do("delete", "clusterrolebinding", "use-fast")
    policies.do("delete", "clusterrole", "use-fast")
    policies.do("delete", "serviceaccount", "runner")
    policies.do("delete", "queue", "fast")


def admitted(world: World, obj: Obj, user: str) -> None:
    done = world.kubectl("create", "--dry-run=server", "-f", "-", given=obj, user=user)
    assert done.returncode == 0, done.stderr


def test_a_restricted_queue_needs_the_verb_use(restricted: World) -> None:
    using = job(queue="fast", name="fast")
    cron = {**using, "kind": "CronJob", "spec": {"schedule": "@daily", "jobTemplate": {"spec": using["spec"]}}}
    template = of_flow("JobTemplate", "t", tasks=[task()], queue="fast")
    flow = of_flow("JobFlow", "f", flows=[{"name": "t", "patch": {"jobSpec": {"queue": "fast"}}}])
    for each in (using, cron, template, flow, pod_group("g", queue="fast")):
        assert "user alice may not use queue fast" in restricted.refusal(each, user="alice")
        admitted(restricted, each, "bob")


def test_a_pod_of_our_scheduler_needs_the_right_or_its_service_account(restricted: World) -> None:
    annotations = {QUEUE_NAME: "fast"}
    ours = pod("fast", annotations=annotations, schedulerName="volcano")
    assert "neither user alice nor service account default may use queue fast" in restricted.refusal(ours, user="alice")
    admitted(restricted, ours, "bob")
    admitted(restricted, {**ours, "spec": {**ours["spec"], "serviceAccountName": "runner"}}, "alice")
    admitted(restricted, ours, CONTROLLERS)
    admitted(restricted, pod("fast", annotations=annotations), "alice")
    joining = pod("fast", annotations={**annotations, "scheduling.k8s.io/group-name": "g"}, schedulerName="volcano")
    admitted(restricted, joining, "alice")


def test_a_pod_is_not_moved_to_a_restricted_queue(restricted: World) -> None:
    restricted.create(pod("moved", schedulerName="volcano"))
    annotate = ("annotate", "--dry-run=server", "pod", "moved")
    assert (
        "may use queue fast, which is restricted"
        in restricted.kubectl(*annotate, f"{QUEUE_NAME}=fast", user="alice").stderr
    )
    assert restricted.kubectl(*annotate, "example.com/other=x", user="alice").returncode == 0
    restricted.do("delete", "pod", "moved", "--now")


def test_the_default_queue_of_a_namespace_needs_the_right(restricted: World) -> None:
    restricted.do("annotate", "namespace", "grouped", f"{QUEUE_NAME}=fast")
    given = job(name="by-default")
    given["metadata"]["namespace"] = "grouped"
    explicit = {**given, "spec": {**given["spec"], "queue": "default"}}
    ours = pod("by-default", "grouped", schedulerName="volcano")
    for each in (given, explicit, ours):
        restricted.until(partial(is_restricted, restricted, each))
        admitted(restricted, each, "bob")
    elsewhere = {**given, "spec": {**given["spec"], "queue": "policies"}}
    admitted(restricted, elsewhere, "alice")
    restricted.do("annotate", "namespace", "grouped", f"{QUEUE_NAME}-")


def is_restricted(world: World, obj: Obj) -> bool:
    done = world.kubectl("create", "--dry-run=server", "-f", "-", given=obj, user="alice")
    return "queue fast, which is restricted" in done.stderr


def test_a_command_to_a_queue_needs_the_right_to_update_it(policies: World) -> None:
    close = command("Queue", "default", "CloseQueue")
    policies.do("create", "clusterrole", "commanding", "--verb=create", "--resource=commands.bus.volcano.sh")
    policies.do("create", "clusterrolebinding", "commanding", "--clusterrole=commanding", "--user=dave")
    dry = ("create", "--dry-run=server", "-f", "-")
    policies.until(
        lambda: "dave may not open or close queue default" in policies.kubectl(*dry, given=close, user="dave").stderr
    )
    admitted(policies, command("Job", "default", "AbortJob"), "dave")
    admitted(policies, close, "alice")
