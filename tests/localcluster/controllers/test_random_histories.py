"""Whatever users, pods and late watches do in whatever order: controllers make nothing twice, and come to rest.

Each machine lets watch events wait as long as it likes while controllers go on with what they know and have done.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.examples import examples
from tests.localcluster.controllers.worlds import Refused, World
from volcanoio.framework.effects import Create, Delete, Patch
from volcanoio.localcluster.controllers.deployments.controller import DeploymentController
from volcanoio.localcluster.controllers.jobs.controller import JobController
from volcanoio.localcluster.controllers.objects import BATCH_JOB, DEPLOYMENT, REPLICA_SET, STATEFUL_SET
from volcanoio.localcluster.controllers.replicasets import ReplicaSetController
from volcanoio.localcluster.controllers.statefulsets import StatefulSetController
from volcanoio.model.base import Manifest
from volcanoio.model.kinds import POD, Kind
from volcanoio.model.times import rfc3339

PICK = st.integers(0, 1_000)
LIVELY = examples(40, stateful_step_count=40)


def is_active(pod: Manifest) -> bool:
    """It has not ended and is not being deleted."""
    phase = (pod.get("status") or {}).get("phase")
    return phase not in ("Succeeded", "Failed") and not pod["metadata"].get("deletionTimestamp")


class Machine(RuleBasedStateMachine):
    """Pods that live and die, watches that are late, and writes that are refused."""

    world: World
    kind: Kind
    name = "it"

    def start(self, *controllers: Any) -> None:
        """Begin with these controllers."""
        self.world = World(*controllers)
        self.refusals = 0
        self.world.refuse = self._refuse

    def _refuse(self, effect: Create | Patch | Delete) -> Refused | None:
        del effect
        if self.refusals:
            self.refusals -= 1
            return Refused(500, "InternalError")
        return None

    def pods(self) -> list[Manifest]:
        """All pods there are."""
        return self.world.all(POD)

    def status(self, pod: Manifest, **status: Any) -> None:
        """Give a pod a status."""
        self.world.put(POD, {**pod, "status": {**(pod.get("status") or {}), **status}})

    def become_ready(self, pod: Manifest) -> None:
        """A pod runs."""
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": rfc3339(self.world.now)}
        self.status(pod, phase="Running", conditions=[ready])

    @rule(most=st.integers(1, 5))
    def watches_move_on(self, most: int) -> None:
        """Some watch events arrive."""
        self.world.deliver(most)

    @rule(steps=st.integers(1, 4))
    def controllers_move_on(self, steps: int) -> None:
        """Controllers do something with what they know."""
        for _ in range(steps):
            self.world.step()

    @rule(number=st.integers(1, 3))
    def some_writes_are_refused(self, number: int) -> None:
        """The next writes fail."""
        self.refusals = number

    @rule(most=st.integers(1, 4), steps=st.integers(1, 4))
    def all_move_on(self, most: int, steps: int) -> None:
        """Both, in turns."""
        for _ in range(steps):
            self.world.deliver(most)
            self.world.step()

    def active(self, pick: int) -> list[Manifest]:
        """One pod that is active, if there is any."""
        active = [pod for pod in self.pods() if is_active(pod)]
        return active and [active[pick % len(active)]]

    @rule(pick=PICK)
    def a_pod_is_ready(self, pick: int) -> None:
        """Some pod runs."""
        for pod in self.active(pick):
            self.become_ready(pod)

    @rule(pick=PICK)
    def a_pod_fails(self, pick: int) -> None:
        """Some pod ends badly."""
        for pod in self.active(pick):
            self.status(pod, phase="Failed", conditions=[])

    @rule(pick=PICK)
    def a_pod_is_deleted(self, pick: int) -> None:
        """Somebody deletes a pod."""
        pods = self.pods()
        if not pods:
            return
        meta = pods[pick % len(pods)]["metadata"]
        key = f"{meta['namespace']}/{meta['name']}"
        if meta.get("finalizers"):
            deleting = {"metadata": {"deletionTimestamp": rfc3339(self.world.now)}}
            self.world.change(POD, key, deleting)
        else:
            self.world.remove(POD, key)

    @rule(seconds=st.floats(0.5, 30))
    def time_passes(self, seconds: float) -> None:
        """It gets later."""
        self.world.wait(seconds)

    def come_to_rest(self) -> None:
        """Let everything go well from now on."""
        self.refusals = 0
        for _ in range(60):
            self.world.run_until_stable()
            waiting = [pod for pod in self.pods() if is_active(pod) and not self.runs(pod)]
            if not waiting and not self.world.reminders:
                return
            for pod in waiting:
                self.become_ready(pod)
            self.world.run_until_stable()
            self.world.wait(700.0)
        raise AssertionError("it does not come to rest")

    def runs(self, pod: Manifest) -> bool:
        """Whether a pod is where it should get to."""
        return bool((pod.get("status") or {}).get("phase") == "Running")

    def object(self) -> Manifest:
        """The workload."""
        return self.world.get(self.kind, f"ns/{self.name}")


def template(image: str = "v1") -> Manifest:
    """A pod template."""
    return {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": image}]}}


SELECTOR = {"matchLabels": {"app": "x"}}


class ReplicaSets(Machine):
    """A ReplicaSet that is scaled."""

    kind = REPLICA_SET

    @initialize(replicas=st.integers(0, 5))
    def begin(self, replicas: int) -> None:
        self.start(ReplicaSetController())
        self.most = replicas
        spec = {"replicas": replicas, "selector": SELECTOR, "template": template()}
        self.world.put(REPLICA_SET, {"metadata": {"namespace": "ns", "name": self.name}, "spec": spec})

    @rule(replicas=st.integers(0, 6))
    def scale(self, replicas: int) -> None:
        self.most = max(self.most, replicas)
        self.world.change(REPLICA_SET, "ns/it", {"spec": {"replicas": replicas}})

    @invariant()
    def nothing_is_made_twice(self) -> None:
        assert sum(map(is_active, self.pods())) <= self.most

    def teardown(self) -> None:
        self.come_to_rest()
        wanted = self.object()["spec"]["replicas"]
        assert sum(map(is_active, self.pods())) == wanted
        status = self.object()["status"]
        assert (status["replicas"], status.get("availableReplicas", 0)) == (wanted, wanted)


class Deployments(Machine):
    """A Deployment whose template changes during a rollout."""

    kind = DEPLOYMENT

    @initialize(
        replicas=st.integers(1, 4), surge=st.integers(0, 2), unavailable=st.integers(0, 2), recreate=st.booleans()
    )
    def begin(self, replicas: int, surge: int, unavailable: int, recreate: bool) -> None:
        self.start(DeploymentController(), ReplicaSetController())
        rolling = {"maxSurge": surge, "maxUnavailable": unavailable}
        strategy = {"type": "Recreate"} if recreate else {"type": "RollingUpdate", "rollingUpdate": rolling}
        self.most = replicas + (0 if recreate else surge)
        spec = {
            "replicas": replicas, "selector": SELECTOR, "template": template(), "strategy": strategy,
            "progressDeadlineSeconds": 600, "revisionHistoryLimit": 2,
        }  # fmt: skip
        self.world.put(DEPLOYMENT, {"metadata": {"namespace": "ns", "name": self.name}, "spec": spec})

    @rule(image=st.sampled_from(["v1", "v2", "v3"]))
    def update(self, image: str) -> None:
        self.world.change(DEPLOYMENT, "ns/it", {"spec": {"template": template(image)}})

    @rule(paused=st.booleans())
    def pause_or_resume(self, paused: bool) -> None:
        self.world.change(DEPLOYMENT, "ns/it", {"spec": {"paused": paused}})

    @invariant()
    def sizes_stay_within_the_limits(self) -> None:
        assert sum(one["spec"]["replicas"] for one in self.world.all(REPLICA_SET)) <= self.most

    @invariant()
    def nothing_is_made_twice(self) -> None:
        templates = [one["spec"]["template"]["spec"]["containers"][0]["image"] for one in self.world.all(REPLICA_SET)]
        assert len(templates) == len(set(templates))

    def teardown(self) -> None:
        self.world.change(DEPLOYMENT, "ns/it", {"spec": {"paused": False}})
        self.come_to_rest()
        spec, status = self.object()["spec"], self.object()["status"]
        active = [pod for pod in self.pods() if is_active(pod)]
        images = {pod["spec"]["containers"][0]["image"] for pod in active}
        assert len(active) == spec["replicas"] == status["availableReplicas"] == status["updatedReplicas"]
        assert images == {spec["template"]["spec"]["containers"][0]["image"]}
        conditions = {one["type"]: one["reason"] for one in status["conditions"]}
        assert conditions == {"Available": "MinimumReplicasAvailable", "Progressing": "NewReplicaSetAvailable"}
        assert len(self.world.all(REPLICA_SET)) <= 3


class StatefulSets(Machine):
    """A StatefulSet that is scaled and updated."""

    kind = STATEFUL_SET

    @initialize(replicas=st.integers(0, 4), policy=st.sampled_from(["OrderedReady", "Parallel"]))
    def begin(self, replicas: int, policy: str) -> None:
        self.start(StatefulSetController())
        spec = {
            "replicas": replicas, "selector": SELECTOR, "template": template(), "podManagementPolicy": policy,
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
        }  # fmt: skip
        self.world.put(STATEFUL_SET, {"metadata": {"namespace": "ns", "name": self.name}, "spec": spec})

    @rule(replicas=st.integers(0, 4))
    def scale(self, replicas: int) -> None:
        self.world.change(STATEFUL_SET, "ns/it", {"spec": {"replicas": replicas}})

    @rule(image=st.sampled_from(["v1", "v2"]))
    def update(self, image: str) -> None:
        self.world.change(STATEFUL_SET, "ns/it", {"spec": {"template": template(image)}})

    def teardown(self) -> None:
        self.come_to_rest()
        spec, status = self.object()["spec"], self.object()["status"]
        pods = {pod["metadata"]["name"]: pod for pod in self.pods()}
        assert sorted(pods) == [f"it-{number}" for number in range(spec["replicas"])]
        images = {pod["spec"]["containers"][0]["image"] for pod in pods.values()}
        assert images <= {spec["template"]["spec"]["containers"][0]["image"]}
        assert status["currentRevision"] == status["updateRevision"]
        assert status["replicas"] == status.get("updatedReplicas", 0) == spec["replicas"]


class Jobs(Machine):
    """A Job whose pods end as they like; each end is counted once."""

    kind = BATCH_JOB

    @initialize(completions=st.integers(1, 4), parallelism=st.integers(1, 3), indexed=st.booleans())
    def begin(self, completions: int, parallelism: int, indexed: bool) -> None:
        self.start(JobController())
        self.ended: dict[str, str] = {}
        self.parallelism = parallelism
        spec = {
            "completions": completions, "parallelism": parallelism, "backoffLimit": 1000, "selector": SELECTOR,
            "template": template(), "completionMode": "Indexed" if indexed else "NonIndexed",
        }  # fmt: skip
        self.world.put(BATCH_JOB, {"metadata": {"namespace": "ns", "name": self.name}, "spec": spec})

    @rule(pick=PICK)
    def a_pod_succeeds(self, pick: int) -> None:
        for pod in self.active(pick):
            self.status(pod, phase="Succeeded", conditions=[])

    @invariant()
    def not_too_many_run(self) -> None:
        assert sum(map(is_active, self.pods())) <= self.parallelism

    @invariant()
    def ends_are_noted(self) -> None:
        for pod in self.pods():
            phase = (pod.get("status") or {}).get("phase")
            if pod["metadata"].get("finalizers") and (phase in ("Succeeded", "Failed") or not is_active(pod)):
                uid = pod["metadata"]["uid"]
                if phase == "Succeeded" or uid not in self.ended:
                    self.ended[uid] = "Succeeded" if phase == "Succeeded" else "Failed"

    def become_ready(self, pod: Manifest) -> None:
        self.status(pod, phase="Succeeded" if self.refusals == 0 and self.over else "Running", conditions=[])

    over = False

    def runs(self, pod: Manifest) -> bool:
        return False

    def teardown(self) -> None:
        self.over = True
        self.come_to_rest()
        self.ends_are_noted()
        spec, status = self.object()["spec"], self.object()["status"]
        assert [one["type"] for one in status["conditions"]] == ["SuccessCriteriaMet", "Complete"]
        assert status["succeeded"] == spec["completions"]
        assert status["uncountedTerminatedPods"] == {}
        assert not any(pod["metadata"].get("finalizers") for pod in self.pods())
        failed = sum(end == "Failed" for end in self.ended.values())
        assert status.get("failed", 0) <= failed


TestReplicaSets = ReplicaSets.TestCase
TestReplicaSets.settings = LIVELY
TestDeployments = Deployments.TestCase
TestDeployments.settings = LIVELY
TestStatefulSets = StatefulSets.TestCase
TestStatefulSets.settings = LIVELY
TestJobs = Jobs.TestCase
TestJobs.settings = LIVELY
