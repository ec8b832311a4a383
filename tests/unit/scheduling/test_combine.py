"""How answers of several plugins become one, tier by tier."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from volcanoio.engine.scheduling.combine import Rules
from volcanoio.engine.scheduling.jobs import JobInfo
from volcanoio.engine.scheduling.profile import Enabled, Profile
from volcanoio.framework.scheduling.verdicts import ABSTAIN, PERMIT, Verdict, Vote, reject

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
def test_votes(tiers: list[list[Verdict]], expected: Vote) -> None:
    combined = rules(*tiers_of("job_enqueueable", tiers), *tiers_of("job_pipelined", tiers))
    assert combined.job_enqueueable(JOB).vote is expected
    assert combined.job_pipelined(JOB) is (expected is not Vote.REJECT)


def test_a_rejection_brings_its_reason() -> None:
    assert rules(*tiers_of("job_enqueueable", [[PASS], [NO]])).job_enqueueable(JOB) == NO
    assert rules(*tiers_of("job_valid", [[YES], [NO]])).job_valid(JOB) == NO


@pytest.mark.parametrize(
    ("tiers", "ready", "starving"),
    [([], True, False), ([[True], [False]], False, True), ([[True, False]], False, False), ([[], [True]], True, True)],
)
def test_ready_is_and_over_all_and_starving_over_the_first_tier(
    tiers: list[list[bool]], ready: bool, starving: bool
) -> None:
    assert rules(*tiers_of("job_ready", tiers)).job_ready(JOB) is ready
    assert rules(*tiers_of("job_starving", tiers)).job_starving(JOB) is starving


def test_the_least_that_any_allows() -> None:
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
def test_victims(tiers: list[list[list[Victim] | None]], expected: list[Victim]) -> None:
    combined: Any = rules(*tiers_of("preemptable", tiers), *tiers_of("reclaimable", tiers))
    assert combined.preemptable(None, [A, B, C]) == expected
    assert combined.reclaimable(None, [A, B, C]) == expected


def test_switches_turn_points_off() -> None:
    off = Enabled(Answering(job_ready=False, job_valid=NO), {"enableJobReady": False})
    combined = Rules(Profile(((off,),), ()))
    assert combined.job_ready(JOB)
    assert combined.job_valid(JOB) == NO  # it has no switch


def test_orders_compare_in_tier_order() -> None:
    combined = rules([Answering(job_key=1)], [Answering(job_key=0)])
    assert combined.job_key(JOB)[:2] == (1, 0)
