"""Combining the answers of several plugins into one, tier by tier."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from volcanoio.engine.scheduling.cluster.jobs import JobInfo
from volcanoio.engine.scheduling.cluster.queues import QueueInfo
from volcanoio.engine.scheduling.config.plugin_rules import Rules
from volcanoio.engine.scheduling.config.profile import Enabled, Profile
from volcanoio.framework.scheduling.points import Purpose
from volcanoio.framework.scheduling.verdicts import ABSTAIN, PERMIT, Verdict, Vote, reject
from volcanoio.model.base import ObjectMeta
from volcanoio.model.scheduling import Queue

YES, NO, PASS = PERMIT, reject("No", "no"), ABSTAIN
JOB = JobInfo("ns/pg")


class Answering:
    """Gives the same answer to every question it is made for."""

    name = "answering"

    def __init__(self, **answers: Any) -> None:
        for point, answer in answers.items():
            setattr(self, point, lambda *_, answer=answer: answer)


def rules(*tiers: Sequence[Answering]) -> Rules:
    return Rules(Profile.of(tiers, []))


def tiers_of(point: str, tiers: Sequence[Sequence[Any]]) -> list[list[Answering]]:
    return [[Answering(**{point: answer}) for answer in tier] for tier in tiers]


@pytest.mark.parametrize(
    ("tiers", "expected"),
    [
        ([], Vote.ABSTAIN),
        ([[PASS], [NO]], Vote.REJECT),
        ([[YES], [NO]], Vote.PERMIT),
        ([[YES, NO]], Vote.REJECT),
        ([[PASS, YES], [NO]], Vote.PERMIT),
        ([[PASS], [PASS]], Vote.ABSTAIN),
    ],
)
def test_the_first_tier_with_a_vote_decides_and_a_rejection_wins_within_it(
    tiers: list[list[Verdict]], expected: Vote
) -> None:
    combined = rules(*tiers_of("job_enqueueable", tiers), *tiers_of("job_pipelined", tiers))
    assert combined.job_enqueueable(JOB).vote is expected
    assert combined.job_pipelined(JOB) is (expected is not Vote.REJECT)


def test_a_rejection_contains_its_reason() -> None:
    assert rules(*tiers_of("job_enqueueable", [[PASS], [NO]])).job_enqueueable(JOB) == NO
    assert rules(*tiers_of("job_valid", [[YES], [NO]])).job_valid(JOB) == NO


@pytest.mark.parametrize(
    ("tiers", "ready", "starving"),
    [([], True, False), ([[True], [False]], False, True), ([[True, False]], False, False), ([[], [True]], True, True)],
)
def test_all_plugins_must_find_a_job_ready_and_those_of_the_first_tier_decide_whether_it_starves(
    tiers: list[list[bool]], ready: bool, starving: bool
) -> None:
    assert rules(*tiers_of("job_ready", tiers)).job_ready(JOB) is ready
    assert rules(*tiers_of("job_starving", tiers)).job_starving(JOB) is starving


def test_the_smallest_allowed_number_counts_and_one_overused_vote_is_enough() -> None:
    combined: Any = rules(*tiers_of("fits", [[5], [3, 9]]))
    assert combined.allocatable(None, None, 7) == 3
    assert combined.overused(None) is False
    some: Any = rules(*tiers_of("overused", [[False], [True]]))
    assert some.overused(None) is True


class Victim:
    def __init__(self, uid: str) -> None:
        self.uid = uid

    def __repr__(self) -> str:
        return self.uid


A, B, C = (Victim(name) for name in "abc")


@pytest.mark.parametrize(
    ("tiers", "expected"),
    [
        ([[[A, B], [B, C]]], [B]),
        ([[None], [[A]]], [A]),
        ([[[A], [B]], [[C]]], [C]),  # an empty intersection leaves the choice to the next tier
        ([[[], [A]], [[B]]], [B]),  # and so does a plugin that names none
        ([[[C, A]], [[B]]], [A, C]),  # the first tier that names any decides, in the given order
        ([], []),
    ],
)
def test_victims_are_those_on_which_the_first_tier_with_any_agrees(
    tiers: list[list[list[Victim] | None]], expected: list[Victim]
) -> None:
    combined: Any = rules(*tiers_of("preemptable", tiers), *tiers_of("reclaimable", tiers))
    assert combined.preemptable(None, [A, B, C]) == expected
    assert combined.reclaimable(None, [A, B, C]) == expected


def test_a_switch_disables_a_method_of_a_plugin() -> None:
    off = Enabled(Answering(job_ready=False, job_valid=NO), {"enableJobReady": False})
    combined = Rules(Profile(((off,),), ()))
    assert combined.job_ready(JOB)
    assert combined.job_valid(JOB) == NO  # it has no switch


def test_orders_of_earlier_tiers_are_compared_first() -> None:
    combined = rules([Answering(job_key=1)], [Answering(job_key=0)])
    assert combined.job_key(JOB)[:2] == (1, 0)


def test_all_plugins_must_allow_a_queue_to_reclaim() -> None:
    combined: Any = rules(*tiers_of("preemptive", [[True], [True, False]]))
    assert not combined.preemptive(None, [A])
    assert rules().preemptive(None, [])  # type: ignore[arg-type]  # no plugin votes
    off = Enabled(Answering(preemptive=False), {"enablePreemptive": False})
    assert Rules(Profile(((off,),), ())).preemptive(None, [])  # type: ignore[arg-type]  # as above


def test_victims_of_gang_actions_are_combined_in_the_same_way_and_have_no_switch() -> None:
    combined: Any = rules(*tiers_of("evictable", [[[A, B], [B, C]], [[C]]]))
    assert combined.evictable(None, Purpose.PREEMPT, [A, B, C]) == [B]
    always = Enabled(Answering(evictable=[A]), {"enablePreemptable": False})
    alone: Any = Rules(Profile(((always,),), ()))
    assert alone.evictable(None, Purpose.RECLAIM, [A, B]) == [A]


def test_victims_of_a_tier_are_united_and_the_first_tier_with_any_decides() -> None:
    combined: Any = rules(*tiers_of("victims", [[[], []], [[C], [A]], [[B]]]))
    assert combined.victim_tasks([A, B, C]) == [A, C]
    assert Rules(Profile(((Enabled(Answering(victims=[A]), {"enabledVictim": False}),),), ())).victim_tasks([]) == []


class RankedQueues:
    """A plugin that orders queues by a label, and as victims by the position of their name in `letters`, if given."""

    name = "ranked"

    def __init__(self, letters: str = "") -> None:
        if letters:
            self.victim_key = lambda queue, _preemptor: letters.index(queue.name)

    def queue_key(self, queue: Any) -> int:
        return int(queue.object.metadata.labels["rank"])


def test_the_last_queue_in_order_loses_first_unless_a_plugin_orders_victims() -> None:
    queues = []
    for name, rank in (("a", 1), ("b", 3), ("c", 2)):
        info = QueueInfo(name)
        info.observe(Queue(metadata=ObjectMeta(name=name, labels={"rank": str(rank)})))
        queues.append(info)
    assert Rules(Profile.of([[RankedQueues()]], [])).victim_ranks(queues, queues[0]) == {"b": 0, "c": 1, "a": 2}
    assert Rules(Profile.of([[RankedQueues("cab")]], [])).victim_ranks(queues, queues[0]) == {"c": 0, "a": 1, "b": 2}
