"""Capabilities computed from shares of nodes, and their Events."""

from __future__ import annotations

import msgspec
import pytest
from volcanoio_policies.queue_capability import CHECK, RULE, QueueCapabilityController, capability, rule_of

from volcanoio.engine.hosting.controller_host import Dispatch
from volcanoio.engine.hosting.host import Host
from volcanoio.framework.effects import Patch, Record
from volcanoio.framework.events import Change, ControllerEvent, Observed, Synced, TimerFired
from volcanoio.model import kinds
from volcanoio.model.base import Manifest
from volcanoio.model.core import Node
from volcanoio.model.scheduling import Queue

ALLOCATABLE = {"cpu": "7", "memory": "16393244Ki", "ephemeral-storage": "101430960Ki", "nvidia.com/gpu": "3"}
SHARES = "{cpu: 0.33, memory: 0.3, ephemeral-storage: 0.3, nvidia.com/gpu: 0.5}"


def queue(rule: str, **capability: str) -> Queue:
    meta = {"name": "q", "uid": "q", "resourceVersion": "1", "annotations": {RULE: rule}}
    return msgspec.convert({"metadata": meta, "spec": {"capability": capability}}, Queue)


def node(**allocatable: str) -> Node:
    manifest: Manifest = {
        "metadata": {"name": "n", "resourceVersion": "1", "uid": "n"},
        "status": {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": "True"}]},
    }
    return msgspec.convert(manifest, Node)


def looked(subject: Queue) -> tuple[list[str], dict[str, str]]:
    """Return the Event of a check, and the capability that is written."""
    host = Host([QueueCapabilityController()])
    steps: list[Dispatch] = []
    name = QueueCapabilityController.name
    events: list[ControllerEvent] = [
        Observed(resource="nodes", change=Change.APPEARED, object=node(**ALLOCATABLE)),
        Observed(resource=kinds.QUEUE.resource, change=Change.APPEARED, object=subject),
        Synced(resource="nodes"),
        Synced(resource=kinds.QUEUE.resource),
        TimerFired(controller=name, key="q", name=CHECK),
    ]
    for number, event in enumerate(events):
        steps += host.handle(msgspec.structs.replace(event, seq=number + 1, at=float(number)))
    effects = [effect for step in steps for stage in step.stages for effect in stage]
    written: dict[str, str] = {}
    for effect in effects:
        if isinstance(effect, Patch):
            written |= effect.patch["spec"]["capability"]
    return [effect.message for effect in effects if isinstance(effect, Record)], written


@pytest.mark.parametrize("dry", ["true", "false"])
def test_amounts_are_rounded_and_readable(dry: str) -> None:
    rule = f"{{share: {SHARES}, dryRun: {dry}}}"
    reported, written = looked(queue(rule, memory="68719476736"))
    texts = {"cpu": "2310m", "ephemeral-storage": "29716Mi", "memory": "4802Mi", "nvidia.com/gpu": "1"}
    assert written == ({} if dry == "true" else texts)
    assert len(reported) == 1
    assert reported[0].endswith(
        "cpu none -> 2310m, ephemeral-storage none -> 29716Mi, memory 64Gi -> 4802Mi, nvidia.com/gpu none -> 1"
    )


def test_bounds_are_as_they_are_written() -> None:
    rule = rule_of(queue("{share: {memory: 0.5}, min: {memory: 9G}}"))
    assert capability(rule, [node(**ALLOCATABLE)], {}) == {"memory": 9 * 10**9}
