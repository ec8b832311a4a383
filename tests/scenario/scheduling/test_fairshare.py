"""Plugin namespace-fairshare: users of one queue, each with a namespace, over virtual time in which pods finish."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from tests.scenario.scheduling.harness import World, group, node, pod, priority_class
from volcanoio.engine.scheduling.config.configuration import ConfigurationError
from volcanoio.framework.scheduling_effects import BindBatch
from volcanoio.model import kinds
from volcanoio.model.core import Pod
from volcanoio.model.names import FAIRSHARE_WEIGHT
from volcanoio.model.packaged import config_path

MULTI_TENANT = Path(config_path("scheduler", "multi-tenant.conf")).read_text(encoding="utf-8")


class Users(World):
    """A world of jobs with one pod, created as by the controllers: the PodGroup first, the pod once it is Inqueue."""

    def __init__(self, *objects: dict[str, Any], cpu: int = 20, conf: str = MULTI_TENANT, period: float = 1.0) -> None:
        super().__init__(node("n1", cpu=str(cpu), memory="1Ti", pods="1000"), *objects, conf=conf, period=period)
        self.seconds_of: dict[str, float] = {}
        """Seconds that the pod of each waiting job will run, by the job's key."""
        self.cpu_of: dict[str, str] = {}
        self.ends: dict[str, float] = {}
        self.submitted = 0

    def submit(self, user: str, count: int, *, lasting: float = 10, cpu: str = "1") -> None:
        """Submit `count` jobs of one pod that runs `lasting` seconds."""
        for _ in range(count):
            self.submitted += 1
            name = f"{user}-{self.submitted:05}"
            self.seconds_of[f"{user}/{name}"], self.cpu_of[f"{user}/{name}"] = lasting, cpu
            self.put(_of(user, group(name, 1, minResources={"cpu": cpu, "memory": "1Gi"})))

    def period_passes(self) -> None:
        """Remove finished pods, create the pods of enqueued jobs, and run a cycle."""
        for key in [key for key, end in self.ends.items() if end <= self.now]:
            del self.ends[key]
            self.remove(kinds.POD, key)
            self.remove(kinds.POD_GROUP, key)
        for key in list(self.seconds_of):
            user, _, name = key.partition("/")
            job = self.state.ledger.jobs.get(key)
            if job is not None and job.phase != "Pending" and not job.members:
                self.put(_of(user, pod(name, name, cpu=self.cpu_of[key], memory="1Gi")))
        self.cycle()
        for decision in self.last:
            self.carry_out(decision)
            if isinstance(decision, BindBatch):
                for bind in decision.binds:
                    key = f"{bind.namespace}/{bind.name}"
                    self.ends[key] = self.now + self.seconds_of.pop(key)
                    bound = cast("Pod", self.objects[kinds.POD.resource, key])
                    status = msgspec.structs.replace(bound.status, phase="Running")
                    self.put(msgspec.structs.replace(bound, status=status))

    def seconds(self, count: int) -> Users:
        """Let `count` seconds pass."""
        for _ in range(int(count / self.period)):
            self.period_passes()
        return self

    @property
    def running(self) -> Counter[str]:
        """Number of running pods of each user."""
        return Counter(key.partition("/")[0] for key in self.ends)


def _of(user: str, manifest: dict[str, Any]) -> dict[str, Any]:
    meta = {**manifest["metadata"], "namespace": user, "uid": f"{user}-{manifest['metadata']['name']}"}
    return {**manifest, "metadata": meta}


def namespace(name: str, weight: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "uid": f"namespace-{name}", "annotations": {FAIRSHARE_WEIGHT: weight}},
    }


def test_a_user_with_a_thousand_earlier_jobs_gets_no_more_than_one_with_ten_later_jobs() -> None:
    users = Users(period=3.0)  # periods of one second would take three times as long
    users.submit("a", 1000)
    users.seconds(6)
    assert users.running == {"a": 20}
    users.submit("b", 10, lasting=1000)
    users.seconds(60)
    assert abs(users.running["a"] - users.running["b"]) <= 1
    assert users.running["b"] == 10


def test_jobs_submitted_at_the_same_time_are_enqueued_for_both_users_alternately() -> None:
    users = Users()
    users.submit("a", 200)
    users.submit("b", 10, lasting=1000)
    users.seconds(2)
    assert users.running == {"a": 10, "b": 10}


def test_users_share_by_the_weights_of_their_namespaces() -> None:
    users = Users(namespace("a", "2"), namespace("b", "1"), cpu=21)
    users.submit("a", 130)
    users.seconds(3)
    users.submit("b", 80)
    users.seconds(57)
    assert users.running == {"a": 14, "b": 7}


def test_a_changed_weight_takes_effect_at_once() -> None:
    users = Users(namespace("a", "1"), cpu=12)
    users.submit("a", 60)
    users.submit("b", 60)
    users.seconds(15)
    assert users.running == {"a": 6, "b": 6}
    users.put(namespace("a", "3"))
    users.seconds(15)
    assert users.running == {"a": 9, "b": 3}


@pytest.mark.parametrize("weight", ["0", "-1", "much", "nan", "inf", ""])
def test_a_weight_that_is_not_a_positive_number_counts_as_one(weight: str) -> None:
    users = Users(namespace("a", weight), cpu=10)
    users.submit("a", 50)
    users.submit("b", 50)
    users.seconds(3)
    assert users.running == {"a": 5, "b": 5}


def test_the_share_of_an_idle_user_is_lent_and_returned_as_pods_finish_without_evictions() -> None:
    users = Users()
    users.submit("a", 90)
    users.submit("b", 10)
    users.seconds(2)
    assert users.running == {"a": 10, "b": 10}
    users.seconds(15)
    assert users.running == {"a": 20}
    users.submit("b", 40)
    users.seconds(15)
    assert users.running == {"a": 10, "b": 10}
    assert not users.evictions


def test_a_late_user_gets_its_share_beside_many_users_with_endless_jobs() -> None:
    users = Users(cpu=12)
    crowd = [f"user-{index}" for index in range(5)]
    for user in crowd:
        users.submit(user, 30, lasting=4)
    users.seconds(10)
    users.submit("late", 30, lasting=4)
    for _ in range(4):
        users.seconds(4)
        assert users.running["late"] == 2
    users.seconds(8)
    assert all(users.running[user] == 2 for user in crowd)


def test_shares_are_of_the_dominant_resource() -> None:
    """A pod of user a requests a tenth of the cpus, a pod of user b a twentieth, and neither much memory."""
    users = Users(cpu=20)
    users.submit("a", 100, cpu="2", lasting=5)
    users.submit("b", 100, cpu="1", lasting=5)
    users.seconds(12)
    assert users.running == {"a": 5, "b": 10}


def test_priority_is_compared_before_shares() -> None:
    users = Users(cpu=4)
    users.put(priority_class("urgent", 10))
    users.submit("b", 10)
    for name in ("x", "y", "z", "w"):
        users.seconds_of[f"a/{name}"], users.cpu_of[f"a/{name}"] = 100, "1"
        users.put(_of("a", group(name, 1, priorityClassName="urgent", minResources={"cpu": "1", "memory": "1Gi"})))
    users.seconds(2)
    assert users.running == {"a": 4}


@pytest.mark.parametrize(("patience", "placed"), [("0s", 0), ("10s", 1)])
def test_with_patience_a_large_job_gets_room_that_small_jobs_would_use_piece_by_piece(
    patience: str, placed: int
) -> None:
    """Pods of user a use one cpu and finish one by one every two seconds; that of b needs half of the node at once."""
    conf = MULTI_TENANT.replace("namespace-fairshare", f"namespace-fairshare\n    arguments: {{patience: {patience}}}")
    users = Users(cpu=8, conf=conf)
    for index in range(8):
        users.submit("a", 1, lasting=2 + 2 * index)
    users.submit("a", 60, lasting=16)
    users.seconds(4)
    users.submit("b", 1, cpu="4", lasting=100)
    users.seconds(50)
    assert users.running["b"] == placed
    texts = {message for _, _, message in users.recorded}
    assert any("namespace b has less of queue default and waits for room" in text for text in texts) is bool(placed)


def test_no_room_is_reserved_for_a_job_that_fits_on_no_node() -> None:
    impatient = MULTI_TENANT.replace("namespace-fairshare", "namespace-fairshare\n    arguments: {patience: 5s}")
    users = Users(cpu=8, conf=impatient.replace("  - name: overcommit\n", "").replace("  - name: proportion\n", ""))
    users.submit("a", 100, lasting=5)
    users.submit("b", 1, cpu="9")
    users.seconds(6)
    had = [users.seconds(1).running["a"] for _ in range(20)]
    assert sum(had) >= 7 * 20


def test_patience_must_be_a_duration() -> None:
    with pytest.raises(ConfigurationError, match="patience"):
        World(conf=MULTI_TENANT.replace("namespace-fairshare", "namespace-fairshare\n    arguments: {patience: -1s}"))
