"""batch Jobs: to the end, counted once."""

from __future__ import annotations

from typing import Any

from tests.contract.kubelet import ended, events_of, kubelet, pods_of, running, succeeded, template, until
from tests.contract.support import Namespace, Obj, gone

JOBS = "jobs.v1.batch"
INDEX = "batch.kubernetes.io/job-completion-index"


def make(namespace: Namespace, restart: str = "Never", **spec: Any) -> Obj:
    """A Job."""
    body = {"metadata": {"name": "job"}, "spec": {"template": template(restart=restart), **spec}}
    return namespace.cluster.create(namespace.path(JOBS), body).ok()


def conditions(one: Obj) -> list[tuple[str, str, str]]:
    """Type, status and reason of each."""
    return [(c["type"], c["status"], c.get("reason", "")) for c in one["status"].get("conditions", [])]


def over(one: Obj) -> bool:
    """It is complete or failed."""
    return any(type_ in ("Complete", "Failed") and status == "True" for type_, status, _ in conditions(one))


def members(namespace: Namespace) -> list[Obj]:
    """Its pods."""
    return pods_of(namespace, **{"batch.kubernetes.io/job-name": "job"})


def test_a_job_runs_to_its_completions(namespace: Namespace) -> None:
    made = make(namespace, completions=3, parallelism=2)
    uid = made["metadata"]["uid"]
    labels = {
        "batch.kubernetes.io/controller-uid": uid, "batch.kubernetes.io/job-name": "job", "controller-uid": uid,
        "job-name": "job",
    }  # fmt: skip
    assert made["metadata"]["labels"] == made["spec"]["template"]["metadata"]["labels"] == labels
    assert made["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    running_at_once = 0

    def watched(pod: Obj) -> Obj:
        nonlocal running_at_once
        assert pod["metadata"]["finalizers"] == ["batch.kubernetes.io/job-tracking"]
        going = [one for one in members(namespace) if one["status"]["phase"] == "Pending"]
        running_at_once = max(running_at_once, len(going))
        return succeeded(pod)

    with kubelet(namespace, watched):
        done = until(namespace, JOBS, "job", over)
    reason = "CompletionsReached"
    assert conditions(done) == [("SuccessCriteriaMet", "True", reason), ("Complete", "True", reason)]
    status = done["status"]
    assert (status["succeeded"], status["ready"], status["terminating"]) == (3, 0, 0)
    assert status["uncountedTerminatedPods"] == {}
    assert "active" not in status
    assert status["completionTime"] >= status["startTime"]
    assert running_at_once <= 2
    for pod in members(namespace):
        until(namespace, "pods", pod["metadata"]["name"], lambda one: "finalizers" not in one["metadata"])
    assert events_of(namespace, "Job", "Completed") == ["Job completed"]


def test_a_job_fails_after_too_many_failures(namespace: Namespace) -> None:
    make(namespace, backoffLimit=0)
    with kubelet(namespace, lambda pod: ended(pod, 1)):
        done = until(namespace, JOBS, "job", over)
    reason = "BackoffLimitExceeded"
    assert conditions(done) == [("FailureTarget", "True", reason), ("Failed", "True", reason)]
    assert done["status"]["failed"] == 1
    assert done["status"]["conditions"][1]["message"] == "Job has reached the specified backoff limit"
    assert events_of(namespace, "Job", reason) == ["Job has reached the specified backoff limit"]


def test_a_job_takes_too_long(namespace: Namespace) -> None:
    make(namespace, activeDeadlineSeconds=1)
    with kubelet(namespace):
        done = until(namespace, JOBS, "job", over)
    assert [reason for _, _, reason in conditions(done)] == ["DeadlineExceeded"] * 2
    assert done["status"]["failed"] == 1
    assert members(namespace) == []


def test_indexes_are_completed_each(namespace: Namespace) -> None:
    make(namespace, completions=4, parallelism=4, completionMode="Indexed")
    with kubelet(namespace, succeeded):
        done = until(namespace, JOBS, "job", over)
    assert (done["status"]["completedIndexes"], done["status"]["succeeded"]) == ("0-3", 4)
    for number, pod in enumerate(members(namespace)):
        assert pod["metadata"]["generateName"] == f"job-{number}-"
        assert pod["metadata"]["annotations"][INDEX] == pod["metadata"]["labels"][INDEX] == str(number)
        assert pod["spec"]["hostname"] == f"job-{number}"
        (variable,) = pod["spec"]["containers"][0]["env"]
        assert variable["name"] == "JOB_COMPLETION_INDEX"
        assert variable["valueFrom"]["fieldRef"]["fieldPath"] == f"metadata.labels['{INDEX}']"


def test_an_index_may_fail_without_the_others(namespace: Namespace) -> None:
    make(namespace, completions=3, parallelism=3, completionMode="Indexed", backoffLimitPerIndex=0)
    with kubelet(namespace, lambda pod: ended(pod, int(pod["metadata"]["labels"][INDEX] == "1"))):
        done = until(namespace, JOBS, "job", over)
    assert conditions(done)[-1] == ("Failed", "True", "FailedIndexes")
    assert (done["status"]["completedIndexes"], done["status"]["failedIndexes"]) == ("0,2", "1")


def test_a_rule_fails_the_job_at_once(namespace: Namespace) -> None:
    rule = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}
    make(namespace, podFailurePolicy={"rules": [rule]})
    with kubelet(namespace, lambda pod: ended(pod, 42)):
        done = until(namespace, JOBS, "job", over)
    assert conditions(done)[-1] == ("Failed", "True", "PodFailurePolicy")
    (pod,) = members(namespace)
    assert done["status"]["conditions"][-1]["message"] == (
        f"Container main for pod {namespace.name}/{pod['metadata']['name']} failed with exit code 42 "
        "matching FailJob rule at index 0"
    )


def test_some_indexes_may_be_enough(namespace: Namespace) -> None:
    policy = {"rules": [{"succeededIndexes": "0"}]}
    make(namespace, completions=2, parallelism=2, completionMode="Indexed", successPolicy=policy)
    with kubelet(namespace, lambda pod: succeeded(pod) if pod["metadata"]["labels"][INDEX] == "0" else running(pod)):
        done = until(namespace, JOBS, "job", over)
    assert conditions(done) == [("SuccessCriteriaMet", "True", "SuccessPolicy"), ("Complete", "True", "SuccessPolicy")]
    assert done["status"]["conditions"][0]["message"] == "Matched rules at index 0"


def test_a_suspended_job_waits(namespace: Namespace) -> None:
    make(namespace, suspend=True)
    held = until(namespace, JOBS, "job", lambda one: bool(conditions(one)))
    assert conditions(held) == [("Suspended", "True", "JobSuspended")]
    assert "startTime" not in held["status"]
    assert members(namespace) == []
    with kubelet(namespace):
        namespace.cluster.patch(namespace.path(JOBS, "job"), {"spec": {"suspend": False}}).ok()
        until(namespace, JOBS, "job", lambda one: one["status"].get("ready") == 1)
        namespace.cluster.patch(namespace.path(JOBS, "job"), {"spec": {"suspend": True}}).ok()
        again = until(namespace, JOBS, "job", lambda one: conditions(one) == [("Suspended", "True", "JobSuspended")])
        until(namespace, JOBS, "job", lambda one: not one["status"].get("active") and not one["status"]["terminating"])
    assert "failed" not in again["status"]
    assert members(namespace) == []
    assert events_of(namespace, "Job", "Resumed") == ["Job resumed"]


def test_a_deleted_pod_is_a_failure_and_is_replaced(namespace: Namespace) -> None:
    make(namespace, backoffLimit=3)
    with kubelet(namespace):
        until(namespace, JOBS, "job", lambda one: one["status"].get("ready") == 1)
        (pod,) = members(namespace)
        namespace.cluster.delete(namespace.path("pods", pod["metadata"]["name"])).ok()
        until(namespace, JOBS, "job", lambda one: one["status"].get("failed") == 1)


def test_without_completions_one_success_is_enough(namespace: Namespace) -> None:
    make(namespace, parallelism=2)
    with kubelet(namespace, succeeded):
        done = until(namespace, JOBS, "job", over)
    assert conditions(done)[-1] == ("Complete", "True", "CompletionsReached")
    assert "completions" not in done["spec"]


def test_a_finished_job_is_deleted_after_its_ttl(namespace: Namespace) -> None:
    make(namespace, ttlSecondsAfterFinished=2)
    with kubelet(namespace, succeeded):
        until(namespace, JOBS, "job", over)
        gone(namespace.cluster, namespace.path(JOBS, "job"))
    assert members(namespace) == []


def test_deleting_a_running_job_leaves_nothing(namespace: Namespace) -> None:
    make(namespace, parallelism=2, completions=2)
    with kubelet(namespace):
        until(namespace, JOBS, "job", lambda one: one["status"].get("ready") == 2)
        names = [pod["metadata"]["name"] for pod in members(namespace)]
        namespace.cluster.delete(namespace.path(JOBS, "job"), {"propagationPolicy": "Background"}).ok()
        for name in names:
            gone(namespace.cluster, namespace.path("pods", name))


def test_deleting_no_jobs_causes_no_warning(namespace: Namespace) -> None:
    answer = namespace.cluster.delete(namespace.path("jobs.v1.batch"), labelSelector="a=b=c")
    answer.refused(400, "BadRequest")
    assert "warning" not in {name.lower() for name in answer.headers}


def test_pods_of_a_suspended_job_stay_the_same_beside_their_scheduling(namespace: Namespace) -> None:
    pod = {"containers": [{"name": "c", "image": "busybox:1"}], "restartPolicy": "Never"}
    job = {"metadata": {"name": "j"}, "spec": {"template": {"spec": pod}, "suspend": True}}
    namespace.cluster.create(namespace.path("jobs.v1.batch"), job).ok()
    change = {"spec": {"template": {"spec": {"activeDeadlineSeconds": 5}}}}
    refused = namespace.cluster.patch(namespace.path("jobs.v1.batch", "j"), change).refused(422, "Invalid")
    assert [cause["field"] for cause in refused["details"]["causes"]] == ["spec.template.spec"]
