"""Custom resources: widgets of these tests, and Volcano's own."""

from __future__ import annotations

import random

from tests.contract import widgets
from tests.contract.differential.kind import Kind, Obj, chosen, obj, some
from tests.contract.differential.kinds.core import pod


def _widget(name: str, rng: random.Random) -> Obj:
    spec = rng.choice(({}, {"color": "blue"}, {"color": "green"}, {"parts": ["a", "b"]}, {"size": 0}, {"unknown": 1}))
    return widgets.widget(name, **spec)


def _widget_change(rng: random.Random) -> Obj:
    return rng.choice(
        (
            {"spec": {"size": rng.choice((1, 2, 0, "three", None))}},
            {"spec": {"color": rng.choice(("red", "blue", "pink", None))}},
            {"spec": {"parts": rng.choice((["x"], [], None, ["a", 1]))}},
            {"spec": {"unknown": {"deep": [1]}}},
            {"status": {"phase": "Ignored"}},
        )
    )


def _widget_status(rng: random.Random) -> Obj:
    return rng.choice(
        ({"phase": "Ready"}, {"size": 4}, {"phase": 5}, {"unknown": "x"}, {"conditions": [{"type": "Ok"}]})
    )


def _job(name: str, rng: random.Random) -> Obj:
    task = {"name": "t", "replicas": rng.choice((1, 2, "x")), "template": {"spec": pod(name, rng)["spec"]}}
    spec: Obj = {"minAvailable": 1, "schedulerName": "volcano", "tasks": [task]}
    spec |= some(rng, 0.2, queue=chosen("default", 5), maxRetry=chosen(3, "x"), plugins={"env": []})
    return obj("batch.volcano.sh/v1alpha1", "Job", name, spec=spec)


def _pod_group(name: str, rng: random.Random) -> Obj:
    spec = some(rng, 0.5, minMember=chosen(1, "x"), queue="default", minResources=chosen({"cpu": "1"}, {"cpu": True}))
    return obj("scheduling.volcano.sh/v1beta1", "PodGroup", name, spec=spec)


def _queue(name: str, rng: random.Random) -> Obj:
    spec = some(rng, 0.5, weight=chosen(1, 0, "x", 70000), reclaimable=chosen(True, "yes"), capability={"cpu": "4"})
    return obj("scheduling.volcano.sh/v1beta1", "Queue", name, spec=spec)


def _command(name: str, rng: random.Random) -> Obj:
    target = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "alpha", "uid": "u"}
    parts = some(rng, 0.7, action=chosen("AbortJob", 5), target=target, reason=chosen("because", ["x"]))
    return obj("bus.volcano.sh/v1alpha1", "Command", name, **parts)


CUSTOM = (
    Kind(widgets.PLURAL, _widget, _widget_change, custom=True, status=_widget_status),
    Kind(
        "jobs.v1alpha1.batch.volcano.sh",
        _job,
        lambda rng: {"spec": rng.choice(({"minAvailable": rng.choice((2, "x"))}, {"unknown": 1}, {"tasks": None}))},
        custom=True,
        status=lambda rng: {"state": {"phase": rng.choice(("Running", "Odd"))}},
    ),
    Kind(
        "podgroups.v1beta1.scheduling.volcano.sh",
        _pod_group,
        lambda rng: {"spec": {"minMember": rng.choice((2, None, "x"))}},
        custom=True,
        status=lambda rng: {"phase": rng.choice(("Inqueue", "Odd"))},
    ),
    Kind(
        "queues.v1beta1.scheduling.volcano.sh",
        _queue,
        lambda rng: {"spec": {"weight": rng.choice((2, None, 0))}},
        custom=True,
        cluster=True,
        status=lambda rng: {"state": rng.choice(("Open", "Odd"))},
    ),
    Kind(
        "commands.v1alpha1.bus.volcano.sh", _command, lambda rng: {"action": rng.choice(("ResumeJob", 1))}, custom=True
    ),
)
