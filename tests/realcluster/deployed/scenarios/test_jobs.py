"""What users do with jobs, on a real control plane, through the components as they are installed."""

from __future__ import annotations

from pathlib import Path

from tests.realcluster.deployed.api import Obj
from tests.realcluster.deployed.installation import ROOT
from tests.realcluster.deployed.scenario import Scenario
from tests.realcluster.deployed.world import documents

EXAMPLES = ROOT / "config" / "examples"
RECLAIM = ROOT / "config" / "scheduler" / "reclaim.conf"
PREEMPT = """actions: "enqueue, allocate, preempt, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: drf
  - name: predicates
  - name: proportion
  - name: nodeorder
"""


STORAGE_CLASS = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "my-storage-class"},
    "provisioner": "kubernetes.io/no-provisioner",
    "volumeBindingMode": "WaitForFirstConsumer",
}


def _volume(scenario: Scenario) -> Obj:
    """A volume that every node reaches, which the scheduler has to bind to the claim before the pods."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": scenario.namespace},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce", "ReadWriteMany"],
            "storageClassName": "my-storage-class",
            "persistentVolumeReclaimPolicy": "Retain",
            "hostPath": {"path": "/data"},
        },
    }


def _jobs(path: Path) -> list[str]:
    return [one["metadata"]["name"] for one in documents(path) if one["kind"] == "Job"]


def test_all_example_jobs_complete(scenario: Scenario) -> None:
    for one in (STORAGE_CLASS, _volume(scenario)):  # what the claim of 01-nginx.yaml needs
        scenario.world.apply(one)
    files = [path for path in sorted(EXAMPLES.glob("*.yaml")) if path.name[:2] not in {"06", "20", "21"}]
    for path in files:
        scenario.world.apply(path, namespace=scenario.namespace)
    names = [name for path in files for name in _jobs(path)]
    scenario.all_in("Completed", len(names), seconds=150)
    jobs = scenario.world.jobs(scenario.namespace)
    assert jobs["restart-any"]["status"]["retryCount"] == 1
    assert jobs["nginx"]["status"]["succeeded"] == 6
    assert jobs["spark-pi"]["status"]["succeeded"] == 6


def test_a_job_flow_runs_its_jobs_in_order(scenario: Scenario) -> None:
    scenario.world.apply(EXAMPLES / "21-jobflow.yaml", namespace=scenario.namespace)
    path = f"/apis/flow.volcano.sh/v1alpha1/namespaces/{scenario.namespace}/jobflows/pipeline"
    cluster = scenario.world.cluster
    scenario.world.until(
        lambda: cluster.get(path).ok().get("status", {}).get("state", {}).get("phase") == "Succeed",
        "the flow succeeds",
        120,
    )


def test_a_cron_job_starts_a_job(scenario: Scenario) -> None:
    cron = documents(EXAMPLES / "20-cronjob.yaml")[0]
    cron["spec"]["schedule"] = "* * * * *"
    scenario.world.apply(cron, namespace=scenario.namespace)
    scenario.world.until(scenario.phases, "a job of the CronJob", 75)
    scenario.world.kubectl("delete", "cronjobs.batch.volcano.sh", cron["metadata"]["name"], "-n", scenario.namespace)


def test_the_kuberay_guide(scenario: Scenario) -> None:
    """Two Ray clusters in a queue with room for one: the second waits, and runs when the first is gone."""
    world, namespace = scenario.world, scenario.namespace
    world.apply(EXAMPLES / "06-kuberay-queue.yaml")
    for number in (1, 2):
        for one in documents(EXAMPLES / f"06-kuberay-raycluster-{number}.yaml"):
            if one["kind"] == "Pod":
                one["metadata"]["annotations"]["sim.volcanoio.dev/run-duration"] = "never"
            world.apply(one, namespace=namespace)
        if number == 1:
            world.until(lambda: _group(scenario, 1).get("running") == 3, "the first Ray cluster runs")
    world.until(lambda: _group(scenario, 2).get("conditions"), "the second one has a condition")
    assert _group(scenario, 2)["conditions"][-1]["type"] == "Unschedulable"
    waiting = [pod for name, pod in world.pods_of(namespace).items() if name.startswith("test-cluster-2")]
    assert not any(pod["spec"].get("nodeName") for pod in waiting)
    world.kubectl("delete", "-n", namespace, "-f", str(EXAMPLES / "06-kuberay-raycluster-1.yaml"), "--wait=false")
    world.until(lambda: _group(scenario, 2).get("running") == 3, "the second Ray cluster runs")
    world.kubectl("delete", "-n", namespace, "-f", str(EXAMPLES / "06-kuberay-raycluster-2.yaml"), "--wait=false")
    world.until(lambda: not world.pods_of(namespace), "the pods are gone")
    world.kubectl("delete", "-f", str(EXAMPLES / "06-kuberay-queue.yaml"), "--wait=false")


def _group(scenario: Scenario, number: int) -> Obj:
    name = f"ray-test-cluster-{number}-pg"
    path = f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{scenario.namespace}/podgroups/{name}"
    status: Obj = scenario.world.cluster.get(path).ok().get("status", {})
    return status


def test_policies_restart_abort_and_complete(scenario: Scenario) -> None:
    """An exit code restarts, an evicted pod aborts, and a completed task completes the job."""
    fails_once = {"sim.volcanoio.dev/fail-attempts": "1", "sim.volcanoio.dev/run-duration": "1s"}
    restarted = scenario.job("restarted", replicas=2, policies=[{"event": "PodFailed", "action": "RestartJob"}])
    restarted["spec"]["tasks"][0]["template"]["metadata"]["annotations"] = fails_once
    aborted = scenario.job("aborted", replicas=3, seconds=600, policies=[{"event": "PodEvicted", "action": "AbortJob"}])
    ended = scenario.job("ended", replicas=1, policies=[{"event": "TaskCompleted", "action": "CompleteJob"}])
    ended["spec"]["minAvailable"] = 1
    scenario.submit(restarted, aborted, ended)
    scenario.world.until(lambda: scenario.phases().get("aborted") == "Running", "the job to abort runs")
    scenario.world.kubectl("delete", "pod", "aborted-task-1", "-n", scenario.namespace, "--wait=false")
    wanted = {"restarted": "Completed", "aborted": "Aborted", "ended": "Completed"}
    scenario.world.until(lambda: scenario.phases() == wanted, lambda: f"{wanted}; not {scenario.phases()}")
    assert scenario.world.jobs(scenario.namespace)["restarted"]["status"]["retryCount"] >= 1


def test_suspend_and_resume(scenario: Scenario) -> None:
    job = scenario.job("paused", replicas=4, seconds=8)
    scenario.submit(job)
    scenario.world.until(lambda: scenario.phases() == {"paused": "Running"}, "the job runs")
    scenario.command("paused", "AbortJob")
    scenario.world.until(lambda: scenario.phases() == {"paused": "Aborted"}, "the job is aborted")
    scenario.world.until(lambda: not scenario.world.pods_of(scenario.namespace), "its pods are gone")
    scenario.command("paused", "ResumeJob")
    scenario.all_in("Completed", 1)
    scenario.completed_once(job, restarted={"paused"})


def test_preempt_makes_room_for_an_urgent_job(scenario: Scenario) -> None:
    """The configuration reaches the scheduler by its ConfigMap, as kubelets exchange mounted files."""
    world = scenario.world
    world.apply(EXAMPLES / "00-priority-classes.yaml")
    with world.scheduler_configuration(PREEMPT):
        low = scenario.job("low", replicas=scenario.cpus, seconds=600, minAvailable=1)
        high = scenario.job("high", replicas=4, seconds=2, priorityClassName="high-prio")
        scenario.submit(low)
        world.until(lambda: scenario.running("low") == scenario.cpus, "the cluster is full")
        scenario.submit(high)
        world.until(lambda: scenario.phases().get("high") == "Completed", "the urgent job completes", 120)

        def evicted() -> list[str]:
            """Return the pods of the other job that were evicted, made again, and wait."""
            return [
                name
                for (namespace, name), lives in list(world.invariants.lives.items())
                if namespace == scenario.namespace and name.startswith("low-") and len(lives) > 1
            ]

        world.until(lambda: len(evicted()) >= 4, lambda: f"four are evicted and made again: {evicted()}")
        assert len(evicted()) == 4, "one eviction for each pod of the urgent job"


def test_reclaim_returns_what_a_queue_lent(scenario: Scenario) -> None:
    world = scenario.world
    # Weights 1 and 3. The node of the components counts for the shares, too, though none of these pods fits there:
    # of 56 CPUs the owner deserves 42 and the borrower 14, which reclaim leaves to it.
    wanted = {"owner": scenario.cpus - 14, "borrower": 14}
    with world.scheduler_configuration(RECLAIM.read_text()):
        for name in ("1-borrower.yaml", "2-owner.yaml"):
            for one in documents(EXAMPLES / "reclaim" / name):
                if one["kind"] == "Job":
                    one["spec"]["tasks"][0]["replicas"] = scenario.cpus
                    annotations = one["spec"]["tasks"][0]["template"]["metadata"]["annotations"]
                    annotations["sim.volcanoio.dev/run-duration"] = "never"
                world.apply(one, namespace=scenario.namespace)
            if name.startswith("1"):
                world.until(lambda: scenario.running("borrower") == scenario.cpus, "the borrower has all CPUs")

        def running() -> dict[str, int]:
            return {job: scenario.running(job) for job in wanted}

        world.until(lambda: running() == wanted, lambda: f"{wanted} run: {running()}", 180)
        world.kubectl("delete", "vcjob", "--all", "-n", scenario.namespace, "--wait=false")
        world.until(lambda: not world.pods_of(scenario.namespace), "all pods are gone")
    for queue in ("small", "large"):
        world.kubectl("delete", "queues.scheduling.volcano.sh", queue, "--wait=false")


def test_webhooks_answer_over_tls(scenario: Scenario) -> None:
    """The API server calls the Service, trusts the CA bundle that was injected, and refuses with it."""
    bad = scenario.job("bad", replicas=2)
    bad["spec"]["minAvailable"] = 5
    refused = scenario.world.kubectl(
        "apply", "-n", scenario.namespace, "-f", "-", stdin=scenario.json(bad), check=False
    )
    assert "admission webhook" in refused, refused
    assert "minAvailable" in refused
    defaulted = scenario.job("defaulted", replicas=2)
    del defaulted["spec"]["queue"], defaulted["spec"]["tasks"][0]["name"]
    scenario.submit(defaulted)
    stored = scenario.world.jobs(scenario.namespace)["defaulted"]["spec"]
    assert stored["queue"] == "default"
    assert stored["tasks"][0]["name"] == "default0"
    scenario.all_in("Completed", 1)
