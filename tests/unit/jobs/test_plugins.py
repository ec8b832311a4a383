"""Job plugins in the controller: their order, what they cannot work with, and the objects they keep up to date."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence

import pytest

from tests.unit.jobs import driver
from tests.unit.jobs.driver import World, spec, task
from volcanoio.engine.jobs.pods.plugins import PluginProblem, plugin_order
from volcanoio.framework.jobs import JobPlugin
from volcanoio.model import kinds
from volcanoio.model.base import Manifest
from volcanoio.model.batch import Job, TaskSpec

JOBS = kinds.JOB.resource


def test_plugins_go_by_name_but_behind_those_they_come_after() -> None:
    assert plugin_order({"svc": (), "env": (), "ssh": ()}) == ["env", "ssh", "svc"]
    assert plugin_order({"hcclrank": ("pytorch",), "pytorch": (), "svc": ()}) == ["pytorch", "hcclrank", "svc"]
    assert plugin_order({"hcclrank": ("pytorch",), "svc": ()}) == ["hcclrank", "svc"]
    assert plugin_order({"a": ("c",), "b": (), "c": ("b",)}) == ["b", "c", "a"]


def test_plugins_that_each_come_after_the_other_are_named() -> None:
    with pytest.raises(PluginProblem, match="job plugins a, b must each run after another"):
        plugin_order({"a": ("b",), "b": ("a",), "c": ()})


class Picky(JobPlugin):
    """Needs a second pod; marks pods in the order of the plugins."""

    name = "picky"

    def problems(self, job: Job) -> Sequence[str]:
        return () if job.spec.tasks[0].replicas > 1 else ("one pod is too few; give a second",)

    def on_pod_create(self, pod: Manifest, job: Job, task: TaskSpec, index: int) -> None:
        pod["metadata"]["annotations"]["order"] = pod["metadata"]["annotations"].get("order", "") + self.name


class Early(Picky):
    """Comes after picky, though its name is before."""

    name = "early"
    after = ("picky",)


@pytest.fixture
def _registered() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(driver.PLUGINS, "picky", Picky)
        patch.setitem(driver.PLUGINS, "early", Early)
        yield


@pytest.mark.usefixtures("_registered")
def test_a_job_that_a_plugin_cannot_work_with_waits_until_it_can() -> None:
    world = World()
    world.submit(spec(task(replicas=1), plugins={"picky": [], "early": []}))
    state = world.run_until_stable().job().status.state
    assert (state.phase, state.reason) == ("Pending", "PluginError")
    assert state.message == 'job plugin "picky": one pod is too few; give a second'
    tasks = world.objects[JOBS, "default/job"]["spec"]["tasks"]
    world.change(JOBS, "default/job", {"spec": {"tasks": [{**tasks[0], "replicas": 2}]}})
    pods = world.run_until_stable().pods().values()
    assert [pod.metadata.annotations["order"] for pod in pods] == ["pickyearly"] * 2


@pytest.mark.parametrize(
    ("plugins", "reported", "published"),
    [
        (
            {"svc": ["--publish-not-ready-addresses", "--new-flag=1", "--disable-network-policy"]},
            'job plugin "svc" ignores its arguments from number 2 on: svc: unknown flag "--new-flag"; ',
            True,
        ),
        (
            {"svc": ["--publish-not-ready-addresses=maybe"]},
            'job plugin "svc" ignores its arguments from number 1 on: svc: --publish-not-ready-addresses takes ',
            False,
        ),
        (
            {"svc": [], "ssh": ["--ssh-public-key=PUBLIC"]},
            'job plugin "ssh" ignores its arguments from number 1 on: ssh: --ssh-private-key and --ssh-public-key go ',
            False,
        ),
    ],
)
def test_arguments_that_another_admission_let_in_are_ignored_with_a_warning(
    plugins: Manifest, reported: str, published: bool
) -> None:
    world = World()
    world.submit(spec(task(replicas=2), plugins=plugins))
    world.run_until_stable()
    assert len(world.pods()) == 2
    assert world.job().status.state.reason == ""
    service = world.objects[kinds.SERVICE.resource, "default/job"]
    assert ("publishNotReadyAddresses" in service["spec"]) is published
    assert kinds.NETWORK_POLICY.resource in {resource for resource, _ in world.objects}
    scaled(world, 3)
    [(kind, reason, message)] = world.records
    assert (kind, reason, message[: len(reported)]) == ("Warning", "PluginError", reported)


def scaled(world: World, replicas: int) -> World:
    tasks = world.objects[JOBS, "default/job"]["spec"]["tasks"]
    world.change(JOBS, "default/job", {"spec": {"tasks": [{**tasks[0], "replicas": replicas}]}})
    return world.run_until_stable()


def test_the_client_configuration_follows_the_spec_and_the_keys_stay() -> None:
    world = World()
    world.submit(spec(task(replicas=1), plugins={"ssh": []}))
    world.run_until_stable()
    world.change("secrets", "default/job-ssh", {"data": {"id_rsa": "made at the edge"}})
    writes = len(world.run_until_stable().writes)
    assert scaled(world, 1).writes[writes:] == []
    data = scaled(world, 3).objects["secrets", "default/job-ssh"]["data"]
    assert base64.b64decode(data["config"]).decode().count("HostName") == 3
    assert data["id_rsa"] == "made at the edge"
    world.crash()
    writes = len(world.writes)
    assert [
        write for write in world.run_until_stable().writes[writes:] if getattr(write, "resource", "") == "secrets"
    ] == []


def test_parts_of_a_host_list_come_and_go_with_the_size_of_the_job() -> None:
    world = World()
    world.submit(spec(task(replicas=1), plugins={"svc": []}), name="job")
    assert world.run_until_stable(admit=False).names("configmaps") == ["job-svc"]
    tasks = world.objects[JOBS, "default/job"]["spec"]["tasks"]
    for replicas, expected in ((30_000, ["job-svc", "job-svc-0", "job-svc-1"]), (2, ["job-svc"])):
        world.change(JOBS, "default/job", {"spec": {"tasks": [{**tasks[0], "replicas": replicas}]}})
        assert world.run_until_stable(admit=False).names("configmaps") == expected
    assert world.objects["configmaps", "default/job-svc"]["data"]["t.host"] == "job-t-0.job\njob-t-1.job"


def test_other_objects_of_a_job_are_not_changed() -> None:
    """A ConfigMap of somebody else's, owned by the job and labelled with its name; one that Volcano made goes."""
    world = World()
    world.submit(spec(task(replicas=1), plugins={"svc": []}))
    uid = world.job().metadata.uid
    for name in ("results", "job-svc"):
        owner = {"apiVersion": kinds.JOB.api_version, "kind": "Job", "name": "job", "uid": uid}
        meta = {"name": name, "labels": {"volcano.sh/job-name": "job"}, "ownerReferences": [owner]}
        world.put(kinds.CONFIG_MAP, "default", {"metadata": meta, "data": {}})
    assert world.run_until_stable().names("configmaps") == ["job-svc", "results"]
    world.command("AbortJob")
    world.run_until_stable()
    world.vanish()
    assert world.run_until_stable().job().status.state.phase == "Aborted"
    assert world.names("configmaps") == ["results"]
    assert world.names("services") == []


def test_plugins_are_made_once_for_a_spec_however_often_pods_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Sequence[str]] = []

    class Noted(JobPlugin):
        name = "noted"

        def __init__(self, arguments: Sequence[str]) -> None:
            made.append(arguments)

    monkeypatch.setitem(driver.PLUGINS, "noted", Noted)
    world = World()
    world.submit(spec(task(replicas=2), plugins={"noted": ["--a"]}))
    world.run_until_stable()
    for _ in range(3):
        world.remove("pods", "default/job-t-1")
        world.run_until_stable()
    assert made == [("--a",)]
    world.change(JOBS, "default/job", {"spec": {"plugins": {"noted": ["--b"]}}})
    world.run_until_stable()
    assert made == [("--a",), ("--b",)]
