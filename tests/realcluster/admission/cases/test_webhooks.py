"""The webhook manager on a real API server, with no more rights than config/rbac declares."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from datetime import UTC, datetime

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
from tests.realcluster.admission.world import CONF, CONTROLLERS, World, webhooks
from volcanoio.runtime.webhooks.certificates import Certificates, problem_of

GATE = "scheduling.volcano.sh/queue-allocation-gate"
FAST = "may not use queue fast, which is restricted"
USE = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "use-fast-lane"},
    "rules": [
        {"apiGroups": ["scheduling.volcano.sh"], "resources": ["queues"], "resourceNames": ["fast"], "verbs": ["use"]}
    ],
}


@pytest.fixture(scope="module")
def hooked(world: World) -> Iterator[World]:
    """The webhooks are in force; the queue fast is restricted."""
    with webhooks(world):
        world.kubectl("create", "-f", "-", given=queue("default"))
        restricted = queue("fast")
        restricted["metadata"]["labels"] = {"volcanoio.dev/restricted": "true"}
        world.create(restricted)
        yield world
    # without the server, our kinds and pods are refused, and others are not, nor pods that our controllers create
    late = pod("late", schedulerName="volcano")
    for given in (job(name="late"), late):
        assert "failed calling webhook" in world.refusal(given)
    world.create(pod("foreign"))
    world.create(pod("late", "volcano-system", schedulerName="volcano"))
    world.create(late, user=CONTROLLERS)
    listed = "mutatingwebhookconfigurations,validatingwebhookconfigurations"
    world.do("delete", listed, "-l", "app.kubernetes.io/managed-by=volcanoio-webhook-manager")


def test_every_configuration_has_the_authority_of_the_secret(hooked: World) -> None:
    secret = json.loads(hooked.do("get", "secret", "volcano-admission-secret", "-n", "volcano-system", "-o", "json"))
    bundle = secret["data"]["ca.crt"]
    listed = json.loads(hooked.do("get", "mutatingwebhookconfigurations,validatingwebhookconfigurations", "-o", "json"))
    found = {each["metadata"]["name"]: each["webhooks"][0]["clientConfig"]["caBundle"] for each in listed["items"]}
    assert len(found) == 12
    assert set(found.values()) == {bundle}
    fields = ("tls.crt", "tls.key", "ca.crt", "ca.key")
    held = Certificates(*(base64.b64decode(secret["data"][name]) for name in fields))
    assert problem_of(held, ("volcano-admission-service.volcano-system.svc", "127.0.0.1"), datetime.now(UTC)) == ""


@pytest.mark.parametrize("case", REFUSED)
def test_refused(hooked: World, case: str) -> None:
    obj, reason = REFUSED[case]
    assert reason in hooked.refusal(obj)


@pytest.fixture(scope="module")
def stored(hooked: World) -> Iterator[World]:
    hooked.create(STORED)
    yield hooked
    hooked.do("delete", "vcjob", "stored")


@pytest.mark.parametrize("case", CHANGES)
def test_changes_of_a_job_are_refused(stored: World, case: str) -> None:
    assert UPDATE_RULE in stored.update(CHANGES[case])


@pytest.mark.parametrize("changes", [SCALED, WITHOUT_DEFAULTS], ids=["scaled", "without defaults"])
def test_changes_of_a_job_are_allowed(stored: World, changes: list[Obj]) -> None:
    assert stored.update(changes) == ""


def test_a_job_follows_its_queue_at_once(hooked: World) -> None:
    for number in range(10):
        hooked.create(queue(f"new-{number}"))
        spec = hooked.create(job(name=f"new-{number}", queue=f"new-{number}"))["spec"]
        assert (spec["minAvailable"], spec["tasks"][0]["name"]) == (1, "default0")


def test_all_problems_are_reported_at_once(hooked: World) -> None:
    message = hooked.refusal(job(task(minAvailable=2), minAvailable=5, queue="absent"))
    assert 'admission webhook "validatejob.volcano.sh" denied the request' in message
    assert [line.partition(":")[0] for line in message.splitlines() if line.startswith("- ")] == [
        "- spec.minAvailable", "- spec.tasks[0].minAvailable", "- spec.queue"
    ]  # fmt: skip


def test_pods_of_a_group_get_its_labels_and_others_stay(hooked: World) -> None:
    assert hooked.create(pod("grouped", "grouped"))["spec"]["nodeSelector"] == {"type": "gpu"}
    assert "nodeSelector" not in hooked.create(pod("other"))["spec"]
    hooked.do("delete", "pod", "grouped", "-n", "grouped", "--now")


def test_changed_groups_take_effect(hooked: World) -> None:
    conf = hooked.directory / "volcano-admission.conf"
    conf.write_text(CONF.replace("grouped", "default"))
    spec = pod("changed")
    hooked.until(lambda: "gpu" in hooked.do("create", "--dry-run=server", "-o", "json", "-f", "-", given=spec))
    conf.write_text("resourceGroups: [")  # refused: the last one stays
    conf.write_text(CONF)
    hooked.until(lambda: "gpu" not in hooked.do("create", "--dry-run=server", "-o", "json", "-f", "-", given=spec))


def test_the_gate_is_added_where_the_pod_asks_for_it(hooked: World) -> None:
    given = pod("gated", annotations={GATE: "true"}, schedulerName="volcano")
    assert hooked.create(given)["spec"]["schedulingGates"] == [{"name": GATE}]


def test_rights_to_a_queue(hooked: World) -> None:
    using = job(name="fast", queue="fast")
    cron = {**using, "kind": "CronJob", "spec": {"schedule": "@daily", "jobTemplate": {"spec": using["spec"]}}}
    template = of_flow("JobTemplate", "fast", **using["spec"])
    flow = of_flow("JobFlow", "fast", flows=[{"name": "fast"}])
    bare = pod("fast", annotations={"scheduling.volcano.sh/queue-name": "fast"}, schedulerName="volcano")
    for each in (using, cron, template, bare):
        assert f"user alice {FAST}" in hooked.refusal(each, user="alice"), each["kind"]
    hooked.create(template)
    assert f"spec.flows[0].name: user alice {FAST}" in hooked.refusal(flow, user="alice")

    hooked.do("create", "-f", "-", given=USE)
    hooked.do("create", "clusterrolebinding", "use-fast-lane", "--clusterrole=use-fast-lane", "--user=bob")
    hooked.until(
        lambda: not hooked.kubectl("create", "--dry-run=server", "-f", "-", given=using, user="bob").returncode
    )
    for each in (using, cron, flow, bare):
        hooked.create(each, user="bob")


def test_a_pod_that_joins_a_group_needs_the_right_to_its_queue(hooked: World) -> None:
    hooked.create(pod_group("members", queue="fast", minMember=1))
    named = pod("member", annotations={"scheduling.k8s.io/group-name": "members"}, schedulerName="volcano")
    assert f"user alice {FAST}" in hooked.refusal(named, user="alice")
    hooked.create(pod_group("podgroup-1-2", queue="fast", minMember=1))
    owned = pod("owned", schedulerName="volcano")
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "1-2", "controller": True}
    owned["metadata"]["ownerReferences"] = [owner]
    assert f"metadata.ownerReferences: user alice {FAST}" in hooked.refusal(owned, user="alice")
    absent = pod("absent", annotations={"scheduling.k8s.io/group-name": "a/b"}, schedulerName="volcano")
    hooked.do("create", "--dry-run=server", "-f", "-", given=absent)


def test_the_default_queue_of_a_namespace_needs_the_right(hooked: World) -> None:
    hooked.do("annotate", "namespace", "grouped", "scheduling.volcano.sh/queue-name=fast")
    given = job(name="by-default")
    given["metadata"]["namespace"] = "grouped"
    for each in (given, pod("by-default", "grouped", schedulerName="volcano")):
        assert f"of namespace grouped): user alice {FAST}" in hooked.refusal(each, user="alice")
    hooked.do("annotate", "namespace", "grouped", "scheduling.volcano.sh/queue-name-")
    hooked.do("create", "--dry-run=server", "-f", "-", given=given)


def test_a_command_to_a_queue_needs_the_right_to_update_it(hooked: World) -> None:
    """The role of alice has it, as it is of all queues."""
    close = command("Queue", "default", "CloseQueue")
    hooked.do("create", "clusterrole", "commander", "--verb=create", "--resource=commands.bus.volcano.sh")
    hooked.do("create", "clusterrolebinding", "commander", "--clusterrole=commander", "--user=carol")
    dry = ("create", "--dry-run=server", "-f", "-")
    hooked.until(
        lambda: "may not open or close queue default" in hooked.kubectl(*dry, given=close, user="carol").stderr
    )
    for given, user in ((close, "alice"), (command("Job", "default", "AbortJob"), "carol")):
        done = hooked.kubectl(*dry, given=given, user=user)
        assert done.returncode == 0, done.stderr


def test_the_right_of_a_pods_service_account_suffices(hooked: World) -> None:
    hooked.do("create", "serviceaccount", "runner")
    annotations = {"scheduling.volcano.sh/queue-name": "fast"}
    given = pod("by-account", annotations=annotations, schedulerName="volcano", serviceAccountName="runner")
    assert FAST in hooked.refusal(given, user="alice")
    hooked.do(
        "create", "clusterrolebinding", "runner", "--clusterrole=use-fast-lane", "--serviceaccount=default:runner"
    )
    hooked.until(
        lambda: not hooked.kubectl("create", "--dry-run=server", "-f", "-", given=given, user="alice").returncode
    )


def test_a_removed_bundle_is_restored(hooked: World) -> None:
    name = "volcano-admission-service-jobs-validate"

    def bundle() -> str:
        stored = json.loads(hooked.do("get", "validatingwebhookconfiguration", name, "-o", "json"))
        return str(stored["webhooks"][0]["clientConfig"].get("caBundle", ""))

    before = bundle()
    patch = [{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}]
    hooked.do("patch", "validatingwebhookconfiguration", name, "--type=json", "-p", json.dumps(patch))
    hooked.until(lambda: bundle() == before)
