"""The files of config/admission: admission by the API server itself, while no webhook is registered."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial

import pytest

from tests.realcluster.admission.objects import REFUSED, job, of_flow, queue, task
from tests.realcluster.admission.world import World
from volcanoio.model.packaged import config_path

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


def test_jobs_that_are_updated_keep_their_queue(policies: World) -> None:
    policies.do("patch", "vcjob", "policies", "--type=merge", "-p", '{"spec": {"minAvailable": 1}}')
    done = policies.kubectl("patch", "vcjob", "policies", "--type=merge", "-p", '{"spec": {"queue": "other"}}')
    assert "job updates may not change fields other than" in done.stderr


def test_default_and_root_are_not_deleted(policies: World) -> None:
    policies.create(queue("default"))
    assert "`default` queue can not be deleted" in policies.kubectl("delete", "queue", "default").stderr


def test_a_restricted_queue_needs_the_verb_use(policies: World) -> None:
    made = queue("fast")
    made["metadata"]["labels"] = {"volcanoio.dev/restricted": "true"}
    policies.create(made)
    using = job(queue="fast", name="fast")
    dry = ("create", "--dry-run=server", "-f", "-")
    policies.until(lambda: "may not use queue fast" in policies.kubectl(*dry, given=using, user="alice").stderr)
    template = of_flow("JobTemplate", "t", tasks=[task()], queue="fast")
    assert "user alice may not use queue fast" in policies.refusal(template, user="alice")
    flow = of_flow("JobFlow", "f", flows=[{"name": "t", "patch": {"jobSpec": {"queue": "fast"}}}])
    assert "user alice may not use queue fast" in policies.refusal(flow, user="alice")
    policies.do("create", "-f", "-", given=USE)
    policies.do("create", "clusterrolebinding", "use-fast", "--clusterrole=use-fast", "--user=bob")
    policies.until(
        lambda: not policies.kubectl("create", "--dry-run=server", "-f", "-", given=using, user="bob").returncode
    )
    assert "may not use queue fast" in policies.refusal(using, user="alice")
    policies.do("delete", "clusterrolebinding", "use-fast")
    policies.do("delete", "queue", "fast")
