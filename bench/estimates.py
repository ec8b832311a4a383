"""How good start-time estimates are: `python -m bench.estimates [--pods 60000] [--days 6] [--train 3] [--spread 0.5]`.

Days of the platform (`bench.day.arrivals`) run on the scheduling engine, one after the other. While jobs wait, it is
asked every few seconds when they start. Each held-out day is answered with what was known at each moment: jobs that had
finished, also of that day, and a calibration learned from the days before, as `volcanoio eta` learns it. Answers are
compared with an exponentially weighted mean of past waits, whose weight is the best one for the training days, and with
the quantiles of the waits of those days. Without --spread every pod runs for a minute, as in `bench.platform`.
"""

from __future__ import annotations

import argparse
import heapq
import json
import sys
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from bench.day.engine_day import Day, EngineDay, Load
from bench.machine import machine, software
from volcanoio.engine.accounting.finished_jobs import FinishedJob
from volcanoio.engine.estimates.intervals import LEVELS, Calibration, Interval, Outcome, coverage, interval_of, pinball
from volcanoio.engine.estimates.past_questions import PastJobs, learn
from volcanoio.engine.estimates.run_times import RunTimes

WEIGHTS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.8)
"""Weights of the newest wait that are tried on the training days."""


class Wait(NamedTuple):
    """A question (in epoch seconds), and the seconds until the job started."""

    at: float
    seconds: float


def answered(day: Day, before: Sequence[FinishedJob], seed: int) -> tuple[list[Outcome], list[float]]:
    """Return answers without calibration about jobs that had not started, and the CPU seconds of each moment."""
    outcomes, spent = list[Outcome](), list[float]()
    known, times, left = list(before), RunTimes(before), sorted(day.jobs, key=lambda job: job.finished)
    for number, question in enumerate(day.questions):
        while left and left[0].finished <= question.at:
            known.append(left[0])
            times.add(left.pop(0))
        observed = question.observed
        began = time.process_time()
        past = PastJobs(known, observed.resources, observed.nodes)
        starts = observed.model.starts(past.futures(question.at, times), seed=seed + number)
        spent.append(time.process_time() - began)
        for at, (key, group) in enumerate(zip(observed.jobs, observed.model.waiting, strict=True)):
            if group.minimum and key in day.started:
                outcomes.append(Outcome(interval_of(starts[:, at]), day.started[key] - question.at))
    return outcomes, spent


def figures(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Return coverage, misses on both sides and loss of answers."""
    return {
        "coverage": round(coverage(outcomes), 4),
        "earlier": round(float(np.mean([each.seconds < each.answer.p10 for each in outcomes])), 4),
        "later": round(float(np.mean([each.seconds > each.answer.p90 for each in outcomes])), 4),
        "width_seconds_p50": round(float(np.median([each.answer.p90 - each.answer.p10 for each in outcomes])), 2),
        "pinball_seconds": round(float(np.mean([pinball(*each) for each in outcomes])), 4),
    }


def smoothed(waits: Sequence[Wait], weight: float, start: float) -> tuple[list[float], float]:
    """Return the exponentially weighted mean at each question, by time, and after the last: of waits that were over."""
    means, mean = list[float](), start
    waiting: list[tuple[float, float]] = []
    for wait in sorted(waits):
        while waiting and waiting[0][0] <= wait.at:
            mean += weight * (heapq.heappop(waiting)[1] - mean)
        means.append(mean)
        heapq.heappush(waiting, (wait.at + wait.seconds, wait.seconds))
    for _, seconds in sorted(waiting):
        mean += weight * (seconds - mean)
    return means, mean


def points(waits: Sequence[Wait], weight: float, start: float) -> list[Outcome]:
    """Return answers that are the mean of past waits."""
    means, _ = smoothed(waits, weight, start)
    return [Outcome(Interval(mean, mean, mean), wait.seconds) for mean, wait in zip(means, sorted(waits), strict=True)]


def compare(train: Sequence[Wait], held_out: Sequence[Wait]) -> dict[str, Any]:
    """Return the figures of what needs no model."""
    first = train[0].seconds
    losses = {weight: figures(points(train, weight, first))["pinball_seconds"] for weight in WEIGHTS}
    best = min(WEIGHTS, key=lambda weight: losses[weight])
    mean = smoothed(train, best, first)[1]
    quantiles = Interval(*np.quantile([wait.seconds for wait in train], LEVELS).tolist())
    return {
        "exponentially_weighted_mean": {"weight": best, **figures(points(held_out, best, mean))},
        "quantiles_of_training_days": figures([Outcome(quantiles, wait.seconds) for wait in held_out]),
    }


def measure(load: Load, days: int, train: int, seed: int = 1) -> dict[str, Any]:
    """Run the days and answer the questions of those after `train`."""
    known = RunTimes()
    before: list[FinishedJob] = []
    waits: list[list[Wait]] = []
    raw, calibrated, spent, calibrations = list[Outcome](), list[Outcome](), list[float](), list[Calibration]()
    per_day = []
    for number in range(days):
        day = EngineDay(load, known, day=number, seed=seed + number).run()
        if number < train:
            waits.append(_waits(day))
        elif day.questions:
            first = day.questions[0]
            past = PastJobs(before, first.observed.resources, first.observed.nodes)
            calibrations.append(learn(past, first.observed.model, first.at, seed=seed))
            outcomes, seconds = answered(day, before, seed)
            corrected = [Outcome(calibrations[-1].apply(each.answer), each.seconds) for each in outcomes]
            raw, calibrated, spent = raw + outcomes, calibrated + corrected, spent + seconds
            waits.append(_waits(day))
            per_day.append({"day": number + 1, "answers": len(outcomes), **figures(corrected)})
        before += day.jobs
        print(f"day {number + 1} of {days}: {len(day.jobs)} jobs", file=sys.stderr, flush=True)
    trained, held_out = (sum(some, list[Wait]()) for some in (waits[:train], waits[train:]))
    return {
        "jobs": len(before),
        "asked_on_training_days": len(trained),
        "answers_on_held_out_days": len(held_out),
        "wait_seconds_p50_p90_max": [
            round(float(each), 1) for each in np.quantile([wait.seconds for wait in held_out], (0.5, 0.9, 1.0))
        ],
        "calibrated": figures(calibrated),
        "held_out_days": per_day,
        "not_calibrated": figures(raw),
        **compare(trained, held_out),
        "factors": [round(each, 3) for each in calibrations[-1].factors],
        "past_answers_behind_factors": calibrations[-1].answers,
        "cpu_seconds_for_all_waiting_jobs_p50_max": [round(float(each), 3) for each in np.quantile(spent, (0.5, 1.0))],
    }


def _waits(day: Day) -> list[Wait]:
    """Return what was asked on a day, and how long it was until each job started."""
    return [
        Wait(question.at, day.started[key] - question.at)
        for question in day.questions
        for key, group in zip(question.observed.jobs, question.observed.model.waiting, strict=True)
        if group.minimum and key in day.started
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; returns 1 if the intervals are not calibrated, or a mean of past waits is better."""
    parser = argparse.ArgumentParser(prog="python -m bench.estimates", description=__doc__)
    parser.add_argument("--pods", type=int, default=60_000, help="pods of a day; 300000 make 24 hours")
    parser.add_argument("--nodes", type=int, default=200)
    parser.add_argument("--days", type=int, default=6)
    parser.add_argument("--train", type=int, default=3, help="days before the held-out ones")
    parser.add_argument("--spread", type=float, default=0.0, help="sigma of the logarithm of run times")
    given = parser.parse_args(arguments)
    found = measure(Load(given.pods, given.nodes, given.spread), given.days, given.train)
    about = {
        "bench": "estimates", "machine": machine(), "software": software(), "pods_of_a_day": given.pods,
        "nodes": given.nodes, "training_days": given.train, "spread": given.spread,
    }  # fmt: skip
    print(json.dumps({**about, **found}, indent=2))
    return 0 if passed(found) else 1


def passed(found: dict[str, Any]) -> bool:
    """Return whether 75 to 85 % of starts were within the interval, with less loss than the mean of past waits."""
    loss = found["calibrated"]["pinball_seconds"]
    better = loss < found["exponentially_weighted_mean"]["pinball_seconds"]
    return bool(0.75 <= found["calibrated"]["coverage"] <= 0.85 and better)


if __name__ == "__main__":
    sys.exit(main())
