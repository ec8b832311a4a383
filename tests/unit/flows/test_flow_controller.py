"""The JobFlow controller on a simulated store: order, probes, patches, phases, retention and Events."""

from __future__ import annotations

import pytest

from tests.unit.flows.flow_objects import flow, part, template
from tests.unit.world import World
from volcanoio.engine.flows.controller import JobFlowController
from volcanoio.engine.flows.state import STATUS_LISTS, next_phase
from volcanoio.framework.effects import CheckEndpoint
from volcanoio.model import kinds, names
from volcanoio.model.base import Manifest
from volcanoio.model.flow import JobFlow

NAME = "jobflow-controller"


@pytest.fixture
def world() -> World:
    made = World([JobFlowController])
    for name in "abcd":
        made.put(kinds.JOB_TEMPLATE, template(name))
    return made


def the(world: World) -> JobFlow:
    found = world.get(kinds.JOB_FLOW, "ns/f")
    assert isinstance(found, JobFlow)
    return found


def phase(world: World) -> str:
    return the(world).status.state.phase


def pod(world: World, index: int, address: str = "10.0.0.1", running: str = "Running") -> None:
    meta = {"name": f"f-a-main-{index}", "namespace": "ns"}
    world.put(kinds.POD, {"metadata": meta, "status": {"phase": running, "podIP": address}})


def checks(world: World) -> list[CheckEndpoint]:
    found = [effect for _, _, effect in world.others if isinstance(effect, CheckEndpoint)]
    world.others.clear()
    return found


def test_jobs_start_in_the_order_of_their_dependencies(world: World) -> None:
    world.put(kinds.JOB_FLOW, flow(part("a"), part("b", "a"), part("c", "a"), part("d", "b", "c")))
    assert world.names(kinds.JOB) == ["f-a"]
    assert phase(world) == "Pending"
    world.phase("ns/f-a", "Running")
    assert (phase(world), the(world).status.running_jobs) == ("Running", ("f-a",))
    world.phase("ns/f-a", "Completed")
    assert world.names(kinds.JOB) == ["f-a", "f-b", "f-c"]
    world.phase("ns/f-b", "Completed")
    assert world.names(kinds.JOB) == ["f-a", "f-b", "f-c"]
    world.phase("ns/f-c", "Completed")
    world.phase("ns/f-d", "Completed")
    assert (phase(world), the(world).status.completed_jobs) == ("Succeed", ("f-a", "f-b", "f-c", "f-d"))
    succeeded, failed = (
        f"volcano_jobflow_{end}_phase_count {{'jobflow_namespace': 'ns'}}" for end in ("succeed", "failed")
    )
    assert world.begun == [succeeded, failed]
    assert world.figures == [succeeded]
    assert world.events == [f"Normal Created: Created job f-{name}" for name in "abcd"]


def test_the_job_is_created_from_its_template(world: World) -> None:
    world.put(kinds.JOB_FLOW, flow(part("a")))
    job = world.objects[kinds.JOB.resource, "ns/f-a"]
    marks = {names.CREATED_BY_TEMPLATE: "ns.a", names.CREATED_BY_FLOW: "ns.f"}
    assert (job["metadata"]["annotations"], job["metadata"]["labels"]) == (marks, marks)
    assert job["spec"] == template("a")["spec"]
    owner = world.job("ns/f-a").metadata.controller
    assert owner is not None
    assert (owner.kind, owner.uid) == ("JobFlow", the(world).metadata.uid)


def test_marks_too_long_for_labels_are_annotations_alone(world: World) -> None:
    long = "a" * 60 + ".b"
    world.put(kinds.JOB_TEMPLATE, template(long))
    world.put(kinds.JOB_FLOW, flow(part(long)))
    meta = world.job(f"ns/f-{long}").metadata
    assert meta.annotations[names.CREATED_BY_TEMPLATE] == f"ns.{long}"
    assert meta.labels == {names.CREATED_BY_FLOW: "ns.f"}


def test_a_template_that_is_created_later_starts_the_flow() -> None:
    world = World([JobFlowController])
    world.put(kinds.JOB_FLOW, flow(part("a"), part("b")))
    world.put(kinds.JOB_TEMPLATE, template("b"))
    assert world.names(kinds.JOB) == ["f-b"]
    world.put(kinds.JOB_TEMPLATE, template("a"))
    assert world.names(kinds.JOB) == ["f-a", "f-b"]
    assert (
        world.events[0]
        == "Warning JobTemplateNotFound: JobTemplate a does not exist in ns; job f-a starts once it is created"
    )
    assert len([event for event in world.events if "NotFound" in event]) == 2


def test_a_flow_without_its_templates_has_no_status_until_it_has_a_job() -> None:
    world = World([JobFlowController])
    world.put(kinds.JOB_FLOW, flow(part("a"), part("b", "a")))
    assert (world.writes, phase(world)) == ([], "")
    world.put(kinds.JOB_TEMPLATE, template("a"))
    assert (phase(world), the(world).status.pending_jobs) == ("Pending", ("f-a",))


@pytest.mark.parametrize(
    ("ended", "expected"), [("Failed", "Failed"), ("Terminated", "Failed"), ("Aborted", "Running")]
)
def test_a_job_that_fails_ends_the_flow(world: World, ended: str, expected: str) -> None:
    world.put(kinds.JOB_FLOW, flow(part("a"), part("b", "a"), part("c")))
    world.phase("ns/f-c", "Running")
    world.phase("ns/f-a", ended)
    assert phase(world) == expected
    world.phase("ns/f-a", "Completed")
    assert ("f-b" in world.names(kinds.JOB)) is (expected == "Running")
    counted = ["volcano_jobflow_failed_phase_count {'jobflow_namespace': 'ns'}"]
    assert world.figures == (counted if expected == "Failed" else [])


@pytest.mark.parametrize("job_phase", sorted(STATUS_LISTS))
def test_every_phase_has_its_list(world: World, job_phase: str) -> None:
    world.put(kinds.JOB_FLOW, flow(part("a"), part("b")))
    world.phase("ns/f-a", job_phase)
    assert "f-a" in getattr(the(world).status, STATUS_LISTS[job_phase])


def test_the_history_of_a_job(world: World) -> None:
    world.put(kinds.JOB_FLOW, flow(part("a")))
    world.wait(10)
    world.phase("ns/f-a", "Running", taskStatusCount={"main": {"phase": {"Running": 2}}})
    world.wait(20)
    world.phase(
        "ns/f-a",
        "Completed",
        runningDuration="30s",
        retryCount=1,
        taskStatusCount={"main": {"phase": {"Running": None, "Succeeded": 2}}},
    )
    (entry,) = the(world).status.job_status_list
    assert (entry.state, entry.restart_count) == ("Completed", 1)
    assert (entry.start_timestamp, entry.end_timestamp) == ("2023-11-14T22:13:20Z", "2023-11-14T22:13:50Z")
    assert [(each.state, each.start_timestamp, each.end_timestamp) for each in entry.running_histories] == [
        ("Pending", "2023-11-14T22:13:20Z", "2023-11-14T22:13:30Z"),
        ("Running", "2023-11-14T22:13:30Z", "2023-11-14T22:13:50Z"),
        ("Completed", "2023-11-14T22:13:50Z", None),
    ]
    condition = the(world).status.conditions["f-a"]
    assert (condition.phase, condition.running_duration) == ("Completed", "30s")
    assert condition.task_status_count["main"].phase == {"Succeeded": 2}


def test_a_completed_job_that_is_removed_stays_completed(world: World) -> None:
    world.put(kinds.JOB_FLOW, flow(part("a"), part("b", "a")))
    world.phase("ns/f-a", "Completed")
    world.remove(kinds.JOB, "ns/f-a")
    world.start()
    world.phase("ns/f-b", "Completed")
    assert world.names(kinds.JOB) == ["f-b"]
    assert (phase(world), the(world).status.completed_jobs) == ("Succeed", ("f-a", "f-b"))


def test_after_success_no_job_is_created_again(world: World) -> None:
    world.put(kinds.JOB_FLOW, flow(part("a")))
    world.phase("ns/f-a", "Completed")
    world.remove(kinds.JOB, "ns/f-a")
    assert world.names(kinds.JOB) == []


def test_the_jobs_go_with_success_when_asked(world: World) -> None:
    world.put(kinds.JOB_FLOW, flow(part("a"), part("b", "a"), jobRetainPolicy="delete"))
    world.phase("ns/f-a", "Completed")
    world.phase("ns/f-b", "Completed")
    assert world.names(kinds.JOB) == []
    assert (phase(world), the(world).status.completed_jobs) == ("Succeed", ("f-a", "f-b"))


def test_a_patch_is_laid_over_the_template(world: World) -> None:
    container = {"name": "c", "env": [{"name": "A", "value": "1"}]}
    patch = {
        "maxRetry": 5,
        "tasks": [{"name": "main", "replicas": 4, "template": {"spec": {"containers": [container]}}}],
    }
    world.put(kinds.JOB_FLOW, flow(part("a", patch=patch)))
    spec = world.objects[kinds.JOB.resource, "ns/f-a"]["spec"]
    (task,) = spec["tasks"]
    assert (spec["queue"], spec["maxRetry"], task["replicas"]) == ("q", 5, 4)
    assert task["template"]["spec"]["containers"] == [{"name": "c", "image": "i", "env": [{"name": "A", "value": "1"}]}]


def test_a_task_that_reached_its_phase_is_enough(world: World) -> None:
    probe = {"taskStatusList": [{"taskName": "main", "phase": "Running"}]}
    world.put(kinds.JOB_FLOW, flow(part("a"), part("b", "a", probe=probe)))
    world.phase("ns/f-a", "Running", taskStatusCount={"main": {"phase": {"Running": 1}}})
    assert world.names(kinds.JOB) == ["f-a"]
    world.phase("ns/f-a", "Running", taskStatusCount={"main": {"phase": {"Running": 1, "Succeeded": 1}}})
    assert world.names(kinds.JOB) == ["f-a", "f-b"]


def test_as_many_pods_as_the_task_needs_at_least_are_enough(world: World) -> None:
    """Of a task that may run with fewer pods than its replicas."""
    world.put(kinds.JOB_TEMPLATE, template("a", replicas=3))
    world.objects[kinds.JOB_TEMPLATE.resource, "ns/a"]["spec"]["tasks"][0]["minAvailable"] = 2
    world.start()
    probe = {"taskStatusList": [{"taskName": "main", "phase": "Running"}]}
    world.put(kinds.JOB_FLOW, flow(part("a"), part("b", "a", probe=probe)))
    world.phase("ns/f-a", "Running", taskStatusCount={"main": {"phase": {"Running": 1}}})
    assert world.names(kinds.JOB) == ["f-a"]
    world.phase("ns/f-a", "Running", taskStatusCount={"main": {"phase": {"Running": 2}}})
    assert world.names(kinds.JOB) == ["f-a", "f-b"]


def test_a_probe_that_names_no_task_is_about_each_of_them(world: World) -> None:
    probe = {"taskStatusList": [{"phase": "Running"}]}
    world.put(kinds.JOB_FLOW, flow(part("a"), part("b", "a", probe=probe)))
    world.phase("ns/f-a", "Running", taskStatusCount={"main": {"phase": {"Running": 1}}})
    assert world.names(kinds.JOB) == ["f-a"]
    world.phase("ns/f-a", "Running", taskStatusCount={"main": {"phase": {"Running": 2}}})
    assert world.names(kinds.JOB) == ["f-a", "f-b"]


def test_pods_that_answer_are_enough(world: World) -> None:
    probe = {
        "httpGetList": [{"taskName": "main", "path": "/ready", "port": 80, "httpHeader": {"name": "X-A", "value": "b"}}]
    }
    world.put(kinds.JOB_FLOW, flow(part("a"), part("b", "a", probe=probe)))
    world.phase("ns/f-a", "Running")
    pod(world, 0, "10.0.0.1")
    assert checks(world) == []
    world.wait(5)
    (first,) = checks(world)
    assert (first.host, first.port, first.path, first.headers) == ("10.0.0.1", 80, "/ready", {"X-A": "b"})
    world.answer(NAME, "ns/f", first)
    pod(world, 1, "10.0.0.2")
    assert checks(world) == []  # the next round has not come
    world.wait(5)
    (second,) = checks(world)
    assert second.host == "10.0.0.2"
    world.answer(NAME, "ns/f", second, code=503)
    world.wait(4)
    assert checks(world) == []
    world.wait(2)
    (again,) = checks(world)
    world.answer(NAME, "ns/f", again)
    assert world.names(kinds.JOB) == ["f-a", "f-b"]


def test_sockets_are_checked_without_a_path_and_again_by_a_new_process(world: World) -> None:
    probe = {"tcpSocketList": [{"taskName": "main", "port": 22}]}
    for index in range(2):
        pod(world, index, f"10.0.0.{index}")
    world.put(kinds.JOB_FLOW, flow(part("a"), part("b", "a", probe=probe)))
    assert {(check.host, check.path) for check in checks(world)} == {("10.0.0.0", ""), ("10.0.0.1", "")}
    world.start()
    found = checks(world)
    assert len(found) == 2
    for each in found:
        world.answer(NAME, "ns/f", each)
    assert world.names(kinds.JOB) == ["f-a", "f-b"]


def test_a_target_that_has_completed_needs_no_probe(world: World) -> None:
    probe = {"tcpSocketList": [{"taskName": "main", "port": 22}]}
    world.put(kinds.JOB_FLOW, flow(part("a"), part("b", "a", probe=probe)))
    world.phase("ns/f-a", "Completed")
    assert world.names(kinds.JOB) == ["f-a", "f-b"]


@pytest.mark.parametrize(("replicas", "expected"), [(40, 40), (120, 100)])
def test_a_large_task_is_asked_in_portions(world: World, replicas: int, expected: int) -> None:
    world.put(kinds.JOB_TEMPLATE, template("a", replicas=replicas))
    probe = {"tcpSocketList": [{"taskName": "main", "port": 22}]}
    world.put(kinds.JOB_FLOW, flow(part("a"), part("b", "a", probe=probe)))
    for index in range(replicas):
        pod(world, index, f"10.0.0.{index}")
    world.wait(6)
    asked = 0
    for _ in range(8):
        found = checks(world)
        assert len(found) <= 16
        asked += len(found)
        for each in found:
            world.answer(NAME, "ns/f", each)
    assert (asked, world.names(kinds.JOB)) == (expected, ["f-a", "f-b"])


def test_a_target_with_none_of_the_tasks_must_complete(world: World) -> None:
    other = template("b", replicas=1)
    other["spec"]["tasks"][0]["name"] = "other"
    world.put(kinds.JOB_TEMPLATE, other)
    probe = {"taskStatusList": [{"taskName": "main", "phase": "Running"}]}
    world.put(kinds.JOB_FLOW, flow(part("a"), part("b"), part("c", "a", "b", probe=probe)))
    world.phase("ns/f-a", "Running", taskStatusCount={"main": {"phase": {"Running": 2}}})
    world.phase("ns/f-b", "Running", taskStatusCount={"other": {"phase": {"Running": 1}}})
    assert world.names(kinds.JOB) == ["f-a", "f-b"]
    world.phase("ns/f-b", "Completed")
    assert world.names(kinds.JOB) == ["f-a", "f-b", "f-c"]


def test_a_probe_of_an_unknown_task_is_reported(world: World) -> None:
    probe = {"taskStatusList": [{"taskName": "nope", "phase": "Running"}]}
    world.put(kinds.JOB_FLOW, flow(part("a"), part("b", "a", probe=probe)))
    world.phase("ns/f-a", "Running")
    assert (
        "Warning UnknownTask: flow b: its probe names task nope, which none of its targets has; fix the JobFlow"
        in world.events
    )


@pytest.mark.parametrize(
    ("parts", "reported"),
    [
        ((part("a", "b"), part("b", "a")), "jobflow Flow is not DAG: a → b → a"),
        ((part("a", "x"),), "spec.flows[0].dependsOn.targets: jobflow Flow is not DAG: vertex is not defined: x"),
        ((part("a"), part("a")), 'flow "a" is named 2 times'),
    ],
)
def test_a_flow_that_bypassed_admission_gets_an_event_with_its_errors(
    world: World, parts: tuple[Manifest, ...], reported: str
) -> None:
    world.put(kinds.JOB_FLOW, flow(*parts))
    assert world.names(kinds.JOB) == []
    assert reported in world.events[0]
    world.put(kinds.JOB_FLOW, flow(part("a")))
    assert world.names(kinds.JOB) == ["f-a"]


def test_one_refused_job_keeps_no_other_waiting(world: World) -> None:
    world.refuse = [(403, "denied"), (0, "")]
    world.put(kinds.JOB_FLOW, flow(part("a"), part("b")))
    assert world.names(kinds.JOB) == ["f-b"]
    assert "Warning FailedCreate: Error creating job: denied" in world.events
    world.phase("ns/f-b", "Running")
    assert phase(world) == "Running"
    world.wait(3)
    assert world.names(kinds.JOB) == ["f-a", "f-b"]


def test_a_foreign_job_blocks_the_name_until_it_is_deleted(world: World) -> None:
    world.put(kinds.JOB, {"metadata": {"name": "f-a", "namespace": "ns"}})
    world.put(kinds.JOB_FLOW, flow(part("a")))
    world.wait(5)
    assert world.events == [
        "Warning ForeignJob: Job f-a exists and is not controlled by this JobFlow; delete or rename it"
    ]
    world.remove(kinds.JOB, "ns/f-a")
    assert world.job("ns/f-a").metadata.controller is not None


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("dies_at", range(1, 12))
def test_killed_at_every_effect_every_job_is_made_once(after: bool, dies_at: int) -> None:
    world = World([JobFlowController])
    for name in "abc":
        world.put(kinds.JOB_TEMPLATE, template(name))
    world.dies_at, world.after = dies_at, after
    world.put(kinds.JOB_FLOW, flow(part("a"), part("b", "a"), part("c", "b"), jobRetainPolicy="delete"))
    for name in "abc":
        world.phase(f"ns/f-{name}", "Running")
        world.phase(f"ns/f-{name}", "Completed")
    assert [write for write in world.writes if write.startswith("create")] == [f"create f-{name}" for name in "abc"]
    assert (phase(world), world.names(kinds.JOB)) == ("Succeed", [])
    assert [entry.state for entry in the(world).status.job_status_list] == ["Completed"] * 3


@pytest.mark.parametrize(
    ("stored", "jobs", "expected"),
    [
        ("", {}, "Pending"),
        ("", {"a": "Pending"}, "Pending"),
        ("Pending", {"a": "Running"}, "Running"),
        ("Pending", {"a": "Completed"}, "Running"),
        ("Running", {"a": "Completed"}, "Running"),
        ("Running", {"a": "Completed", "b": "Completed"}, "Succeed"),
        ("Running", {"a": "Restarting"}, "Running"),
        ("Running", {"a": "Failed"}, "Failed"),
        ("Pending", {"a": "Terminated"}, "Failed"),
        ("Failed", {"a": "Completed", "b": "Completed"}, "Failed"),
        ("Succeed", {}, "Succeed"),
        ("Terminating", {"a": "Running"}, "Terminating"),
    ],
)
def test_phases(stored: str, jobs: dict[str, str], expected: str) -> None:
    assert next_phase(stored, jobs, 2) == expected
