"""Plugin namespace-fairshare: users of one queue, each with a namespace, over virtual time in which pods finish."""

from __future__ import annotations

import pytest

from tests.scenario.scheduling.harness import World, group, priority_class, scenarios
from tests.scenario.scheduling.users import MULTI_TENANT, Jobs, Users, UsersScenario, in_namespace, namespace
from volcanoio.engine.scheduling.config.configuration import ConfigurationError


@scenarios(
    UsersScenario(
        name="jobs submitted at the same time are enqueued for both users alternately",
        cluster=[],
        submitted=[Jobs(user="a", count=200), Jobs(user="b", count=10, lasting=1000)],
        seconds=2,
        running={"a": 10, "b": 10},
    ),
    *(
        UsersScenario(
            name=f"a weight that is not a positive number counts as one: {weight!r}",
            cluster=[namespace("a", weight)],
            submitted=[Jobs(user="a", count=50), Jobs(user="b", count=50)],
            cpu=10,
            seconds=3,
            running={"a": 5, "b": 5},
        )
        for weight in ("0", "-1", "much", "nan", "inf", "")
    ),
    # A pod of user a requests a tenth of the cpus, a pod of user b a twentieth, and neither much memory.
    UsersScenario(
        name="shares are of the dominant resource",
        cluster=[],
        submitted=[Jobs(user="a", count=100, cpu="2", lasting=5), Jobs(user="b", count=100, cpu="1", lasting=5)],
        seconds=12,
        running={"a": 5, "b": 10},
    ),
)
def test_users_of_one_queue(scenario: UsersScenario) -> None:
    scenario.check()


def test_a_user_with_a_thousand_earlier_jobs_gets_no_more_than_one_with_ten_later_jobs() -> None:
    users = Users(period=3.0)  # periods of one second would take three times as long
    users.submit("a", 1000)
    users.seconds(6)
    assert users.running == {"a": 20}
    users.submit("b", 10, lasting=1000)
    users.seconds(60)
    assert abs(users.running["a"] - users.running["b"]) <= 1
    assert users.running["b"] == 10


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


def test_priority_is_compared_before_shares() -> None:
    users = Users(cpu=4)
    users.put(priority_class("urgent", 10))
    users.submit("b", 10)
    for name in ("x", "y", "z", "w"):
        users.seconds_of[f"a/{name}"], users.cpu_of[f"a/{name}"] = 100, "1"
        users.put(
            in_namespace("a", group(name, 1, priorityClassName="urgent", minResources={"cpu": "1", "memory": "1Gi"}))
        )
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
