"""Users of one queue, each in a namespace of their own, over virtual time: pods run for so long and end."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from tests.scenario.scheduling.harness import World, group, node, pod
from volcanoio.engine.scheduling.config.configuration import ConfigurationError
from volcanoio.framework.scheduling_effects import BindBatch
from volcanoio.model import kinds
from volcanoio.model.core import Pod
from volcanoio.model.names import FAIRSHARE_WEIGHT
from volcanoio.model.packaged import config_path

MULTI_TENANT = Path(config_path("scheduler", "multi-tenant.conf")).read_text(encoding="utf-8")


class Users(World):
    """Jobs of one pod, made as the controllers do: the PodGroup first, its pod once it is admitted."""

    def __init__(self, *objects: dict[str, Any], cpu: int = 20, conf: str = MULTI_TENANT, period: float = 1.0) -> None:
        super().__init__(node("n1", cpu=str(cpu), memory="1Ti", pods="1000"), *objects, conf=conf, period=period)
        self.lasting: dict[str, float] = {}
        """How long the pod of a job runs, by the job's key."""
        self.asking: dict[str, str] = {}
        self.ends: dict[str, float] = {}
        self.submitted = 0

    def submit(self, user: str, count: int, *, lasting: float = 10, cpu: str = "1") -> None:
        """Submit jobs of one pod."""
        for _ in range(count):
            self.submitted += 1
            name = f"{user}-{self.submitted:05}"
            self.lasting[f"{user}/{name}"], self.asking[f"{user}/{name}"] = lasting, cpu
            self.put(_of(user, group(name, 1, minResources={"cpu": cpu, "memory": "1Gi"})))

    def turn(self) -> None:
        """One period: pods whose time is over end, admitted jobs get their pods, the scheduler decides."""
        for key in [key for key, end in self.ends.items() if end <= self.now]:
            del self.ends[key]
            self.remove(kinds.POD, key)
            self.remove(kinds.POD_GROUP, key)
        for key in list(self.lasting):
            user, _, name = key.partition("/")
            job = self.state.ledger.jobs.get(key)
            if job is not None and job.phase != "Pending" and not job.members:
                self.put(_of(user, pod(name, name, cpu=self.asking[key], memory="1Gi")))
        self.cycle()
        for decision in self.last:
            self.carry_out(decision)
            if isinstance(decision, BindBatch):
                for bind in decision.binds:
                    key = f"{bind.namespace}/{bind.name}"
                    self.ends[key] = self.now + self.lasting.pop(key)
                    bound = cast("Pod", self.objects[kinds.POD.resource, key])
                    status = msgspec.structs.replace(bound.status, phase="Running")
                    self.put(msgspec.structs.replace(bound, status=status))

    def seconds(self, count: int) -> Users:
        """So many seconds."""
        for _ in range(int(count / self.period)):
            self.turn()
        return self

    @property
    def running(self) -> Counter[str]:
        """How many pods of each user run."""
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


def test_who_submits_a_thousand_jobs_first_has_no_more_than_who_submits_ten_later() -> None:
    users = Users(period=3.0)  # a second each would be thrice the work
    users.submit("a", 1000)
    users.seconds(6)
    assert users.running == {"a": 20}
    users.submit("b", 10, lasting=1000)
    users.seconds(60)
    assert abs(users.running["a"] - users.running["b"]) <= 1
    assert users.running["b"] == 10


def test_jobs_submitted_in_the_same_moment_are_admitted_in_turns() -> None:
    users = Users()
    users.submit("a", 200)
    users.submit("b", 10, lasting=1000)
    users.seconds(2)
    assert users.running == {"a": 10, "b": 10}


def test_shares_follow_weights() -> None:
    users = Users(namespace("a", "2"), namespace("b", "1"), cpu=21)
    users.submit("a", 130)
    users.seconds(3)
    users.submit("b", 80)
    users.seconds(57)
    assert users.running == {"a": 14, "b": 7}


def test_a_weight_that_changes_counts_from_then_on() -> None:
    users = Users(namespace("a", "1"), cpu=12)
    users.submit("a", 60)
    users.submit("b", 60)
    users.seconds(15)
    assert users.running == {"a": 6, "b": 6}
    users.put(namespace("a", "3"))
    users.seconds(15)
    assert users.running == {"a": 9, "b": 3}


@pytest.mark.parametrize("weight", ["0", "-1", "much", "nan", "inf", ""])
def test_a_weight_that_is_no_positive_number_is_one(weight: str) -> None:
    users = Users(namespace("a", weight), cpu=10)
    users.submit("a", 50)
    users.submit("b", 50)
    users.seconds(3)
    assert users.running == {"a": 5, "b": 5}


def test_what_an_idle_user_leaves_is_lent_and_comes_back_as_pods_end() -> None:
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


def test_no_namespace_below_its_share_starves_beside_many_that_submit_without_end() -> None:
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


def test_the_share_is_of_the_resource_a_user_holds_most_of() -> None:
    """A's pods take a tenth of the cpus, B's a twentieth: A has one pod where B has two."""
    users = Users(cpu=20)
    users.submit("a", 100, cpu="2", lasting=5)
    users.submit("b", 100, cpu="1", lasting=5)
    users.seconds(12)
    assert users.running == {"a": 5, "b": 10}


def test_priority_goes_before_shares() -> None:
    users = Users(cpu=4)
    urgent = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "urgent", "uid": "urgent"},
        "value": 10,
    }
    users.put(urgent)
    users.submit("b", 10)
    for name in ("x", "y", "z", "w"):
        users.lasting[f"a/{name}"], users.asking[f"a/{name}"] = 100, "1"
        users.put(_of("a", group(name, 1, priorityClassName="urgent", minResources={"cpu": "1", "memory": "1Gi"})))
    users.seconds(2)
    assert users.running == {"a": 4}


@pytest.mark.parametrize(("patience", "placed"), [("0s", 0), ("10s", 1)])
def test_who_needs_much_at_once_gets_it_though_others_take_every_piece(patience: str, placed: int) -> None:
    """A's pods have one cpu and end one by one, every two seconds; B's needs half of the node at once."""
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


def test_no_job_waits_for_one_that_fits_nowhere() -> None:
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
