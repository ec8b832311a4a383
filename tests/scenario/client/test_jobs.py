"""Jobs from submission to end, through both clients."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from tests.scenario.client.conftest import User
from volcanoio.client import InvalidJob, JobFailed, JobNotFound, Refused, ServerWarning, Timeout, Unschedulable
from volcanoio.model import names
from volcanoio.model.documents import load_yaml

_NUMBERS = itertools.count()
FOREVER = {"metadata": {"annotations": {names.RUN_DURATION: "never"}}}
FAILING = {"metadata": {"annotations": {names.EXIT_CODE: "3", names.LOG_LINES_PER_SECOND: "0"}}}


@pytest.fixture
def name() -> str:
    """Return a name that no other test has."""
    return f"job-{next(_NUMBERS)}"


def test_a_gang_runs_to_its_end(user: User, name: str) -> None:
    job = user.submit(name=name, image="busybox", command="sleep 5", replicas=3, resources={"cpu": 1})
    assert user.answer(job.status).phase == "Pending"
    result = user.call(job.result)
    assert (result.job, result.succeeded, result.run_time) == (f"default/{name}", 3, 5.0)
    status = user.answer(job.status)
    assert (status.phase, status.is_finished, status.replicas, status.min_available) == ("Completed", True, 3, 3)


def test_run_returns_what_result_returns(user: User, name: str) -> None:
    result = user.call(user.client.run, name=name, image="busybox", command=["sleep", "2"])
    assert (result.succeeded, result.failed) == (1, 0)


def test_tasks_have_images_and_numbers_of_their_own(user: User, name: str) -> None:
    tasks = [
        {"name": "ps", "image": "busybox", "command": "sleep 1"},
        {"name": "worker", "image": "busybox", "replicas": 2, "command": "sleep 1"},
    ]
    job = user.submit(name=name, tasks=tasks, min_available=3)
    user.call(job.wait)
    assert [pod.metadata.name for pod in user.call(job.pods)] == [
        f"{name}-ps-0",
        f"{name}-worker-0",
        f"{name}-worker-1",
    ]


def test_a_manifest_is_a_mapping_or_a_file(user: User, name: str, tmp_path: Path) -> None:
    spec = {"tasks": [{"replicas": 1, "template": {"spec": {"containers": [{"name": "c", "image": "busybox"}]}}}]}
    file = tmp_path / "job.yaml"
    text = f"apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {{name: {name}-file}}\nspec: {spec}\n"
    file.write_text(text.replace("'", ""))
    for source, expected in (({"metadata": {"name": name}, "spec": spec}, name), (file, f"{name}-file")):
        assert user.submit(source).name == expected


def test_a_failed_job_names_pod_exit_code_and_log(user: User, name: str) -> None:
    with pytest.raises(JobFailed) as failed:
        user.call(user.client.run, name=name, image="busybox", command="echo no such table; exit 3", pod=FAILING)
    error = failed.value
    assert (error.job, error.phase, error.pod, error.exit_code) == (
        f"default/{name}",
        "Failed",
        f"{name}-default0-0",
        3,
    )
    assert "no such table" in error.log
    assert "exit code 3" in str(error)


def test_a_job_without_a_place_is_unschedulable_for_a_reason(user: User, name: str) -> None:
    job = user.submit(name=name, image="busybox", resources={"cpu": 100})
    with pytest.raises(Unschedulable) as waits:
        user.call(job.wait, start_timeout=0.1)
    assert waits.value.code == "ClusterInsufficient"
    assert "keeps waiting" in str(waits.value)
    reason = user.call(job.why)
    assert (reason.code, reason.position) == ("ClusterInsufficient", 1)
    assert "one more node like node-0 with cpu 100, pods 1" in reason.remedies
    user.call(job.cancel)


def test_a_running_job_times_out_and_keeps_running(user: User, name: str) -> None:
    job = user.submit(name=name, image="busybox", pod=FOREVER)
    user.call(job.wait, "Running")
    with pytest.raises(Timeout, match="still Running after") as late:
        user.call(job.wait, timeout=0.1)
    assert not isinstance(late.value, Unschedulable)
    assert user.answer(job.status).phase == "Running"
    assert user.call(job.why).code == ""
    user.call(job.cancel)


def test_waiting_for_a_phase_that_a_failed_job_will_not_reach_fails(user: User, name: str) -> None:
    job = user.submit(name=name, image="busybox", pod=FAILING)
    with pytest.raises(JobFailed):
        user.call(job.wait, "completed")
    assert user.call(job.wait, "running").phase == "Failed"  # it was Running


def test_suspend_keeps_the_job_and_resume_starts_it_again(user: User, name: str) -> None:
    job = user.submit(name=name, image="busybox", command="sleep 100000")
    user.call(job.wait, "Running")
    user.call(job.suspend)
    user.call(job.wait, "Aborted")
    user.call(job.resume)
    assert user.call(job.result).succeeded == 1


def test_a_job_that_its_policy_aborts_has_failed(user: User, name: str) -> None:
    policies = {"PodFailed": "AbortJob"}
    with pytest.raises(JobFailed, match=r"is Aborted; pod .* failed with exit code 3"):
        user.call(user.client.run, name=name, image="busybox", pod=FAILING, policies=policies)


def test_a_cancelled_job_is_gone(user: User, name: str) -> None:
    job = user.submit(name=name, image="busybox", pod=FOREVER)
    user.call(job.cancel)
    with pytest.raises(JobNotFound, match="list the jobs"):
        user.call(job.wait)


def test_another_job_of_the_name_is_not_taken_for_it(user: User, name: str) -> None:
    first = user.submit(name=name, image="busybox", pod=FOREVER)
    user.call(first.cancel)
    with pytest.raises(JobNotFound):
        user.call(first.wait)
    second = user.submit(name=name, image="busybox", pod=FOREVER)
    with pytest.raises(JobNotFound, match="another one has its name"):
        user.answer(first.status)
    user.call(second.cancel)


def test_logs_come_from_all_pods(user: User, name: str) -> None:
    quiet = {"metadata": {"annotations": {names.LOG_LINES_PER_SECOND: "0"}}}
    job = user.submit(name=name, image="busybox", command="echo begin; sleep 3", replicas=2, pod=quiet)
    followed = user.call(job.logs, follow=True)
    read = user.call(job.logs)
    assert sorted(map(str, followed)) == sorted(map(str, read))
    assert [line.pod for line in read if line.text == "begin"] == [f"{name}-default0-0", f"{name}-default0-1"]
    assert len(user.call(job.logs, tail=1)) == 2


def test_events_are_those_of_the_job_and_its_pods(user: User, name: str) -> None:
    other = user.submit(name=f"{name}-default0", image="busybox", command="sleep 1")
    job = user.submit(name=name, image="busybox", command="sleep 1")
    user.call(other.wait)
    user.call(job.wait)
    found = user.call(job.events)
    pods = {event.involved_object.name for event in found if event.involved_object.kind == "Pod"}
    assert pods == {f"{name}-default0-0"}
    assert {"Scheduled", "Pulled"} <= {event.reason for event in found}


def test_a_timeline_leads_from_submission_to_end(user: User, name: str) -> None:
    job = user.submit(name=name, image="busybox", command="sleep 5", replicas=3)
    user.call(job.wait)
    found = user.call(job.timeline)
    texts = [entry.text for entry in found.entries]
    assert texts[0] == "submitted to queue default: 3 pods (default0 3); 3 needed together"
    assert "3 pods created" in texts
    assert texts[-1] == "phase Completed"
    assert found.entries[-1].at - found.entries[0].at >= 5


def test_yaml_is_the_stored_manifest(user: User, name: str) -> None:
    job = user.submit(name=name, image="busybox", env={"LEVEL": 3}, queue="default", labels={"team": "a"})
    manifest = load_yaml(user.call(job.yaml))
    container = manifest["spec"]["tasks"][0]["template"]["spec"]["containers"][0]
    assert container["env"] == [{"name": "LEVEL", "value": "3"}]
    assert manifest["metadata"]["labels"] == {"team": "a"}
    assert "managedFields" not in manifest["metadata"]


def test_jobs_are_found_by_name_and_queue(user: User, name: str) -> None:
    user.submit(name=name, image="busybox", pod=FOREVER)
    job = user.call(user.client.job, name)
    assert name in [each.name for each in user.call(user.client.jobs, queue="default")]
    assert user.call(user.client.jobs, queue="other") == []
    user.call(job.cancel)
    with pytest.raises(JobNotFound):
        user.call(user.client.job, "no-such-job")


def test_a_refusal_has_the_servers_sentence(user: User, name: str) -> None:
    with pytest.raises(Refused, match="unable to find job queue") as refused:
        user.submit(name=name, image="busybox", queue="no-such-queue")
    assert refused.value.code in (400, 403, 422)


def test_a_misspelt_field_of_a_manifest_is_warned_of(user: User, name: str) -> None:
    spec = {"quueue": "ml", "tasks": [{"template": {"spec": {"containers": [{"name": "c", "image": "busybox"}]}}}]}
    with pytest.warns(ServerWarning, match='unknown field "spec.quueue"'):
        user.submit({"metadata": {"name": name}, "spec": spec})


@pytest.mark.parametrize(
    ("job", "message"),
    [
        ({"image": "busybox", "replica": 3}, 'no argument "replica"; did you mean "replicas"'),
        ({"name": "x"}, 'the job has no image; give one, such as image="busybox"'),
        ({"image": "busybox", "command": []}, "command: .* give a text for /bin/sh, or a list of words"),
        ({"tasks": [{"image": "a"}], "image": "b"}, "a job with tasks= has no image of its own"),
        ({"tasks": [{"imge": "a"}]}, r'tasks\[0\] has no argument "imge"; did you mean "image"'),
        ({"image": "busybox", "resources": "2"}, 'resources is a mapping such as {"cpu": 2, "memory": "4Gi"}'),
        ({"image": "busybox", "plugins": "svc"}, r'plugins: give a list such as \["svc"\]'),
    ],
)
def test_arguments_that_cannot_be_used_name_the_next_step(user: User, job: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidJob, match=message):
        user.submit(**job)
