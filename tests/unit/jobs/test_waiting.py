"""What a job waits for is said on the job and ends the wait when it comes."""

from __future__ import annotations

from tests.unit.jobs.driver import World, spec, task
from volcanoio.model import kinds
from volcanoio.model.base import Manifest

JOBS = kinds.JOB.resource
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


def test_a_missing_queue_is_waited_for() -> None:
    world = World()
    world.submit(spec(queue="research"))
    world.run_until_stable()
    state = world.job().status.state
    assert (state.phase, state.reason) == ("Pending", "QueueNotFound")
    assert '"research"' in state.message
    assert not world.names(kinds.POD_GROUP.resource)
    world.put(kinds.QUEUE, "", {"metadata": {"name": "research"}, "spec": {}})
    world.run_until_stable()
    assert world.job().status.state.reason == ""
    assert len(world.pods()) == 2


def test_a_missing_claim_is_waited_for() -> None:
    world = World()
    world.submit(spec(volumes=[{"mountPath": "/data", "volumeClaimName": "data"}]))
    world.run_until_stable()
    assert world.job().status.state.reason == "PVCError"
    world.put(kinds.PVC, "default", {"metadata": {"name": "data"}, "spec": CLAIM})
    assert len(world.run_until_stable().pods()) == 2


def test_named_and_generated_claims_are_made_and_a_bare_mount_is_an_empty_dir() -> None:
    world = World()
    volumes = [
        {"mountPath": "/myinput"},
        {"mountPath": "/myoutput", "volumeClaimName": "testvolumeclaimname", "volumeClaim": CLAIM},
        {"mountPath": "/scratch", "volumeClaim": CLAIM},
    ]
    world.submit(spec(task(replicas=1), volumes=volumes))
    world.run_until_stable()
    claims = world.names("persistentvolumeclaims")
    generated = next(name for name in claims if name.startswith("job-pvc-"))
    assert claims == [generated, "testvolumeclaimname"]
    assert world.job().status.controlled_resources[f"volume-pvc-{generated}"] == generated
    pod = world.objects["pods", "default/job-t-0"]["spec"]
    sources = [volume.get("persistentVolumeClaim", {}).get("claimName", "empty") for volume in pod["volumes"]]
    assert sources == ["empty", "testvolumeclaimname", generated]
    assert [mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]] == [
        "/myinput",
        "/myoutput",
        "/scratch",
    ]


def test_an_unknown_plugin_is_named_with_advice() -> None:
    world = World()
    world.submit(spec(plugins={"sshh": []}))
    world.run_until_stable()
    state = world.job().status.state
    assert state.reason == "PluginError"
    assert 'did you mean "ssh"?' in state.message
    assert [reason for _, reason, _ in world.records] == ["PluginError"]


WORDS = "queue resource quota insufficient: insufficient cpu"


def unschedulable(message: str, at: int = 0, reason: str = "QueueQuotaInsufficient") -> Manifest:
    """A condition of a PodGroup that waits."""
    return {**scheduled(at), "type": "Unschedulable", "reason": reason, "message": message}


def scheduled(at: int = 0) -> Manifest:
    """The condition of a PodGroup that has its places."""
    return {"type": "Scheduled", "status": "True", "lastTransitionTime": f"2026-01-01T00:00:{at:02}Z"}


def say(world: World, *conditions: Manifest, phase: str = "Pending") -> World:
    """Write the status of the job's PodGroup, as the scheduler does."""
    group = f"default/{world.names(kinds.POD_GROUP.resource)[0]}"
    world.change(kinds.POD_GROUP.resource, group, {"status": {"phase": phase, "conditions": list(conditions)}})
    return world.run_until_stable(admit=False)


def submitted() -> World:
    """A job of two pods whose PodGroup waits."""
    world = World()
    world.submit(spec())
    return world.run_until_stable(admit=False)


def test_why_a_group_waits_is_the_jobs_reason_and_one_event() -> None:
    world = say(submitted(), unschedulable(f"{WORDS} (queue default: needs cpu 2, in use 0, limit 1)"))
    state = world.job().status.state
    assert (state.phase, state.reason) == ("Pending", "QueueQuotaInsufficient")
    assert state.message == f"{WORDS} (queue default: needs cpu 2, in use 0, limit 1)"
    text = f"PodGroup default:job unschedulable, reason: {state.message}"
    assert world.records == [("Warning", "PodGroupPending", text)]


def test_other_amounts_are_shown_without_another_event() -> None:
    world = say(submitted(), unschedulable(f"{WORDS} (queue default: needs cpu 2, in use 4, limit 5)"))
    say(world, unschedulable(f"{WORDS} (queue default: needs cpu 2, in use 5, limit 5)"))
    assert world.job().status.state.message.endswith("in use 5, limit 5)")
    assert len(world.records) == 1
    say(world, unschedulable("2/2 tasks in gang unschedulable", reason="NotEnoughResources"), phase="Inqueue")
    assert [message.partition("reason: ")[2] for _, _, message in world.records][1:] == [
        "2/2 tasks in gang unschedulable"
    ]


def test_the_newest_condition_by_time_counts() -> None:
    world = say(submitted(), unschedulable("later", at=2), scheduled(at=1))
    assert world.job().status.state.message == "later"
    say(world, unschedulable("earlier", at=2), scheduled(at=3))
    assert world.job().status.state.reason == ""
    say(world, scheduled(at=3), unschedulable("of equal times the last", at=3))
    assert world.job().status.state.message == "of equal times the last"


def test_a_running_job_ignores_an_old_condition() -> None:
    world = say(submitted(), unschedulable("2/2 tasks in gang unschedulable"), phase="Inqueue")
    assert world.job().status.state.message == "2/2 tasks in gang unschedulable"
    for pod in ("job-t-0", "job-t-1"):
        world.phase(pod, "Running")
    world.run_until_stable()
    world.pass_time(3.0)
    state = world.job().status.state
    assert (state.phase, state.reason, state.message) == ("Running", "", "")


def test_a_deleted_queue_is_reported_at_once_and_only_while_it_is_missing() -> None:
    world = World()
    world.put(kinds.QUEUE, "", {"metadata": {"name": "research"}, "spec": {}})
    world.submit(spec(queue="research"))
    world.run_until_stable(admit=False)
    world.remove(kinds.QUEUE.resource, "research")
    world.run_until_stable(admit=False)
    assert world.job().status.state.reason == "QueueNotFound"
    gone = unschedulable('queue "research" does not exist', reason="QueueNotFound")
    say(world, gone)
    world.put(kinds.QUEUE, "", {"metadata": {"name": "research"}, "spec": {}})
    world.run_until_stable(admit=False)
    assert world.job().status.state.reason == "", "what the scheduler said of it is old"


def test_a_refused_pod_is_reported_and_tried_again_later() -> None:
    world = World()
    world.refusals["pods"] = (403, "exceeded quota")
    world.submit(spec(task(replicas=1)))
    world.run_until_stable()
    assert [(kind, reason) for kind, reason, _ in world.records] == [("Warning", "FailedCreate")]
    assert "exceeded quota" in world.records[0][2]
    writes = len(world.writes)
    world.run_until_stable()
    assert len(world.writes) == writes, "nothing is tried before the back-off ends"
    world.refusals.clear()
    world.pass_time(1.0)
    assert list(world.pods()) == ["job-t-0"]


def test_a_refused_pod_is_the_reason_and_running_pods_are_counted() -> None:
    world = World()
    world.submit(spec(task(replicas=1), minAvailable=1))
    world.run_until_stable()
    world.refusals["pods"] = (403, "exceeded quota: pods=1")
    world.change(JOBS, "default/job", {"spec": spec(task(replicas=3), minAvailable=1)})
    world.run_until_stable()
    world.phase("job-t-0", "Running")
    for _ in range(3):
        world.pass_time(1.0)
    status = world.job().status
    assert (status.state.phase, status.state.reason, status.running) == ("Running", "FailedCreate", 1)
    assert "exceeded quota: pods=1 (pods/job-t-1)" in status.state.message
    world.refusals.clear()
    world.pass_time(60.0)
    assert world.job().status.state.reason == ""
    assert len(world.pods()) == 3


def test_a_created_priority_class_ends_the_wait() -> None:
    world = World()
    world.refusals["pods"] = (403, "no PriorityClass with name urgent was found")
    world.submit(spec(priorityClassName="urgent"))
    world.run_until_stable()
    assert not world.pods()
    world.refusals.clear()
    world.put(kinds.PRIORITY_CLASS, "", {"metadata": {"name": "urgent"}, "value": 1000})
    world.run_until_stable()
    assert len(world.pods()) == 2


def test_a_foreign_pod_in_the_way_is_outlasted() -> None:
    world = World()
    world.put(kinds.POD, "default", {"metadata": {"name": "job-t-0"}, "spec": {}})
    world.submit(spec(task(replicas=1)))
    world.run_until_stable()
    world.pass_time(1.0)
    world.pass_time(1.0)
    assert any(reason == "FailedCreate" for _, reason, _ in world.records)
    world.remove("pods", "default/job-t-0")
    world.pass_time(5.0)
    assert world.pods()["job-t-0"].metadata.owner_references[0].uid == world.job().metadata.uid


def test_an_object_of_another_owner_stops_no_job() -> None:
    world = World()
    world.put(kinds.SERVICE, "default", {"metadata": {"name": "job"}, "spec": {}})
    world.submit(spec(plugins={"svc": []}))
    world.run_until_stable()
    assert len(world.pods()) == 2
    assert [reason for _, reason, _ in world.records] == ["PluginError"]
