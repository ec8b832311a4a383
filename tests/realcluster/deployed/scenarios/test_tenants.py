"""config/examples/tenant on a real control plane: what it forbids is refused at apply of the Job, or shown on it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from copy import deepcopy

import pytest

from tests.realcluster.deployed.api import Obj
from tests.realcluster.deployed.installation import ROOT
from tests.realcluster.deployed.scenario import Scenario
from tests.realcluster.deployed.world import World, documents

TENANT = ROOT / "config" / "examples" / "tenant"
FILES = ("1-namespace.yaml", "2-rights.yaml", "3-policies.yaml")
NAMESPACE = "team-a"
MEMBER = ("--as=anna", "--as-group=team-a", "--as-group=system:authenticated")
JOB = documents(TENANT / "4-job.yaml")[0]
VIP: Obj = {
    "apiVersion": "scheduling.volcano.sh/v1beta1",
    "kind": "Queue",
    "metadata": {"name": "vip", "labels": {"volcanoio.dev/restricted": "true"}},
    "spec": {"weight": 1},
}


@pytest.fixture(scope="module")
def tenant(installed: World) -> Iterator[World]:
    for name in FILES:
        installed.kubectl("apply", "--server-side", "-f", str(TENANT / name))
    installed.apply(VIP)
    probe = changed("probe", lambda _, pod: pod["securityContext"].update(runAsUser=0))
    installed.until(lambda: "tenant-user" in create(installed, probe, dry_run=True), "the policies are in effect")
    installed.until(lambda: "created" in create(installed, JOB, dry_run=True), "the quota has a status")
    yield installed
    installed.kubectl("delete", "queue", "vip", "--wait=false")
    for name in reversed(FILES):
        installed.kubectl("delete", "-f", str(TENANT / name), "--wait=false", "--ignore-not-found")


def changed(name: str, change: Callable[[Obj, Obj], None]) -> Obj:
    """Return the tenant's job with another name and a change, which gets the Job and its pod spec."""
    job = deepcopy(JOB)
    job["metadata"]["name"] = name
    change(job, job["spec"]["tasks"][0]["template"]["spec"])
    return job


def create(world: World, job: Obj, *, dry_run: bool = False) -> str:
    """Create a job as a member of the tenant; returns what kubectl says."""
    mode = ["--dry-run=server"] if dry_run else []
    return world.kubectl(*MEMBER, "create", *mode, "-f", "-", stdin=json.dumps(job), check=False)


def test_the_job_of_a_tenant_completes(tenant: World) -> None:
    assert "created" in create(tenant, JOB)
    tenant.until(lambda: tenant.phases(NAMESPACE).get("hello") == "Completed", "the tenant's job completes", 90)
    tenant.kubectl(*MEMBER, "delete", "jobs.batch.volcano.sh", "hello", "-n", NAMESPACE)
    tenant.until(lambda: not tenant.pods_of(NAMESPACE), "its pods are gone with it")


REFUSALS: dict[str, tuple[Callable[[Obj, Obj], None], str]] = {
    "wrong uid": (lambda _, pod: pod["securityContext"].update(runAsUser=20002), "run as user 20001 and group 20000"),
    "wrong gid": (lambda _, pod: pod["securityContext"].update(runAsGroup=0), "run as user 20001 and group 20000"),
    "uid of a container": (
        lambda _, pod: pod["containers"][0]["securityContext"].update(runAsUser=0),
        "remove runAsUser and runAsGroup from the securityContext of containers",
    ),
    "group of files": (lambda _, pod: pod["securityContext"].update(fsGroup=0), "fsGroup and supplementalGroups"),
    "foreign namespace": (
        lambda job, _: job["metadata"].update(namespace="default"),
        'cannot create resource "jobs" in API group "batch.volcano.sh" in the namespace "default"',
    ),
    "forbidden queue": (lambda job, _: job["spec"].update(queue="vip"), "user anna may not use queue vip"),
    "hostPath": (
        lambda _, pod: pod.update(volumes=[{"name": "host", "hostPath": {"path": "/"}}]),
        "volumes of this namespace cannot be of the node",
    ),
    "privileged": (
        lambda _, pod: pod["containers"][0]["securityContext"].update(privileged=True, allowPrivilegeEscalation=True),
        "containers of this namespace cannot be privileged",
    ),
    "host network": (lambda _, pod: pod.update(hostNetwork=True), "cannot use hostNetwork"),
}


@pytest.mark.parametrize(("change", "reason"), REFUSALS.values(), ids=REFUSALS)
def test_a_job_is_refused_at_apply(tenant: World, change: Callable[[Obj, Obj], None], reason: str) -> None:
    said = create(tenant, changed("refused", change))
    assert reason in said
    assert "created" not in said
    assert "refused" not in tenant.jobs(NAMESPACE)


@pytest.mark.parametrize("queue", ["vip", "team-a"])
def test_a_tenant_closes_no_queue(tenant: World, queue: str) -> None:
    """Members may create Commands in their namespace, which suspend and resume their Jobs."""
    target = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "name": queue, "uid": "unknown"}
    command = {
        "apiVersion": "bus.volcano.sh/v1alpha1",
        "kind": "Command",
        "metadata": {"name": "close", "namespace": NAMESPACE},
        "action": "CloseQueue",
        "target": target,
    }
    assert f"user anna may not open or close queue {queue}" in create(tenant, command)


def test_a_pod_that_pod_security_refuses_is_shown_on_its_job(scenario: Scenario) -> None:
    """Without the policies the Job is accepted; its pods are not, and the Job says why."""
    world, namespace = scenario.world, scenario.namespace
    world.kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")
    job = scenario.job("refused", replicas=1)
    scenario.submit(job)

    def refusals() -> list[str]:
        events = world.get("events", namespace=namespace)["items"]
        return [
            one["message"]
            for one in events
            if one["reason"] == "FailedCreate" and one["involvedObject"]["name"] == "refused"
        ]

    found = world.until(refusals, "an Event on the Job")
    assert 'violates PodSecurity "restricted:latest"' in found[0]
    assert not world.pods_of(namespace)
    assert scenario.phases() == {"refused": "Pending"}
    world.kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/enforce-")
    scenario.all_in("Completed", 1, seconds=120)
