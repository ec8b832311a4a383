"""`queue-capability-controller`: a Queue's capability follows the existing nodes, by a rule on the Queue.

  metadata:
    annotations:
      volcanoio.dev/capability-rule: "{share: 0.5, min: {cpu: 4}, max: {cpu: 64}, hysteresis: 0.05, dryRun: false}"

It is the part of the watchdog that concerns queues, so it is a controller and not a lifecycle policy.
"""

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import msgspec

from volcanoio.framework.arguments import ArgumentError, convert, parse_annotation
from volcanoio.framework.controller import Input, Reference, Rule, Step, View
from volcanoio.framework.effects import Effect, Patch, StartTimer, record_event
from volcanoio.framework.events import Change, ControllerEvent, EffectFailed, EffectSucceeded, Observed, TimerFired
from volcanoio.model import kinds
from volcanoio.model.core import Node, ResourceList
from volcanoio.model.quantity import QuantityError, format_bytes
from volcanoio.model.resources import Amounts, add, amounts, format_amount
from volcanoio.model.scheduling import Queue

RULE = "volcanoio.dev/capability-rule"
DEBOUNCE = 5.0
"""Seconds for which changes are collected: nodes change in groups, and the result may be late by less than 30 s."""
RETRY_DELAY = 20.0
"""Seconds after which a refused write is retried."""
CHECK = "look"
_UNLIMITED = 2**62
_BYTES = ("memory", "ephemeral-storage", "hugepages-")
_MEBI = 2**20


class CapabilityRule(msgspec.Struct, frozen=True):
    """The rule of a queue, from its annotation.

    `share` is the fraction of the allocatable amounts of ready nodes, for all resources or by resource; never less than
    `min` or the queue's guarantee, never more than `max`. A change by less than the fraction `hysteresis` is ignored;
    with `dryRun` changes are only reported.
    """

    share: float | dict[str, float]
    min: dict[str, str | int | float] = {}
    max: dict[str, str | int | float] = {}
    hysteresis: float = 0.05
    dryRun: bool = False  # noqa: N815 - as it is written in the annotation


class CapabilityState(msgspec.Struct, frozen=True):
    """The queue, the pending check if any, and the last reported message."""

    queue: Queue | None = None
    check_pending: bool = False
    last_message: str = ""


class QueueCapabilityController:
    """Reconciles one key per queue; queues without a rule have no cost."""

    name = "queue-capability-controller"
    references = (Reference(kinds.NODE),)
    rules = (
        Rule(kinds.QUEUE.group, ("queues",), ("get", "list", "watch", "patch")),
        Rule("", ("nodes",), ("get", "list", "watch")),
        Rule("", ("events",), ("create", "patch")),
    )
    inputs = (Input(kinds.QUEUE, lambda queue: (queue.metadata.name,)),)

    def start(self, key: str) -> CapabilityState:  # noqa: ARG002 - the same for every key
        """Return the empty state."""
        return CapabilityState()

    def reduce(self, state: CapabilityState, event: ControllerEvent, view: View) -> Step[CapabilityState]:
        """Schedule a check some seconds after a change, and run it."""
        if isinstance(event, Observed) and isinstance(event.object, Queue):
            state = _observe(state, event.object, gone=event.change is Change.GONE)
        elif isinstance(event, EffectSucceeded) and isinstance(event.object, Queue):
            state = _observe(state, event.object, gone=False)
        if state.queue is None:
            return Step(None)
        if RULE not in state.queue.metadata.annotations or not view.synced or view.in_flight:
            return Step(msgspec.structs.replace(state, check_pending=False) if isinstance(event, TimerFired) else state)
        if isinstance(event, TimerFired):
            return _check(msgspec.structs.replace(state, check_pending=False), state.queue, view)
        if state.check_pending:
            return Step(state)
        view.lookup.all(kinds.NODE)  # subscribes this key to changes of nodes
        wait = RETRY_DELAY if isinstance(event, EffectFailed) else DEBOUNCE
        return Step(
            msgspec.structs.replace(state, check_pending=True), ((StartTimer(name=CHECK, due=view.now + wait),),)
        )


def rule_of(queue: Queue) -> CapabilityRule:
    """Return the queue's rule; raises ArgumentError."""
    rule = convert(parse_annotation(queue.metadata.annotations[RULE], RULE, "{share: 0.5}"), CapabilityRule, RULE)
    shares = rule.share.values() if isinstance(rule.share, dict) else (rule.share,)
    if not all(0 < share <= 1 for share in shares):
        raise ArgumentError(f'{RULE}: "share" must be more than 0 and at most 1; 0.5 is one half', key="share")
    if not 0 <= rule.hysteresis < 1:
        msg = f'{RULE}: "hysteresis" must be at least 0 and less than 1; 0.05 leaves changes of a twentieth alone'
        raise ArgumentError(msg, key="hysteresis")
    return rule


def capability(rule: CapabilityRule, nodes: Iterable[Node], guarantee: ResourceList) -> Amounts:
    """Return the capability by the rule, in whole Mi, milli-cores and devices; raises QuantityError."""
    allocatable: Amounts = {}
    for node in nodes:
        if _is_ready(node):
            add(allocatable, amounts(node.status.allocatable))
    shares = rule.share if isinstance(rule.share, dict) else dict.fromkeys(("cpu", "memory"), rule.share)
    minimum, maximum, guaranteed = amounts(rule.min), amounts(rule.max), amounts(guarantee)
    wanted: Amounts = {}
    for name, share in shares.items():
        part = _rounded(name, allocatable.get(name, 0) * Fraction(str(share)))
        bounded = min(max(part, minimum.get(name, 0)), maximum.get(name, _UNLIMITED))
        wanted[name] = max(bounded, guaranteed.get(name, 0))
    return wanted


def _rounded(name: str, share: Fraction) -> int:
    """Round a share down to units that are readable: whole Mi, milli-cores, and whole devices."""
    unit = 1 if name in ("cpu", "pods") else 1000
    if name.startswith(_BYTES):
        unit = _MEBI if name == "memory" else _MEBI * 1000
    return int(share // unit) * unit


def _text(name: str, amount: int) -> str:
    bytes_ = name.startswith(_BYTES) and name != "memory"
    return format_bytes(amount // 1000) if bytes_ and amount % 1000 == 0 else format_amount(name, amount)


def _check(state: CapabilityState, queue: Queue, view: View) -> Step[CapabilityState]:
    try:
        rule = rule_of(queue)
        nodes = [node for node in view.lookup.all(kinds.NODE) if isinstance(node, Node)]
        wanted = capability(rule, nodes, queue.spec.guarantee.resource)
        has = amounts(queue.spec.capability)
    except (ArgumentError, QuantityError) as error:
        return _report(state, queue, "Warning", "CapabilityRuleInvalid", str(error))
    guaranteed = amounts(queue.spec.guarantee.resource)
    changed = {
        name: amount
        for name, amount in wanted.items()
        if name not in has
        or has[name] < guaranteed.get(name, 0)
        or abs(amount - has[name]) > rule.hysteresis * max(has[name], 1)
    }
    if not changed:
        return Step(state)
    texts = {name: _text(name, amount) for name, amount in sorted(changed.items())}
    before = {name: _text(name, amount) for name, amount in has.items()}
    changes = ", ".join(f"{name} {before.get(name, 'none')} -> {text}" for name, text in texts.items())
    if rule.dryRun:
        return _report(state, queue, "Normal", "CapabilityWouldChange", f"capability would follow the nodes: {changes}")
    patch = Patch.of(kinds.QUEUE.resource, queue, {"spec": {"capability": texts}}, at_version=True)
    step = _report(state, queue, "Normal", "CapabilityChanged", f"capability follows the nodes: {changes}")
    return Step(step.state, ((*_first(step.stages), patch),))


def _first(stages: tuple[tuple[Effect, ...], ...]) -> tuple[Effect, ...]:
    return stages[0] if stages else ()


def _report(state: CapabilityState, queue: Queue, kind: str, reason: str, message: str) -> Step[CapabilityState]:
    """Record an Event on the queue, unless its message is the last reported one."""
    if state.last_message == message:
        return Step(state)
    record = record_event(kinds.QUEUE, queue, reason, message, type_=kind)
    return Step(msgspec.structs.replace(state, last_message=message), ((record,),))


def _observe(state: CapabilityState, queue: Queue, *, gone: bool) -> CapabilityState:
    known = state.queue
    if gone:
        return CapabilityState()
    if known is not None and known.metadata.uid == queue.metadata.uid:
        newer = queue.metadata.revision > known.metadata.revision
        return msgspec.structs.replace(state, queue=queue) if newer else state
    return msgspec.structs.replace(state, queue=queue, last_message="")


def _is_ready(node: Node) -> bool:
    ready: Any = next((each for each in node.status.conditions if each.type == "Ready"), None)
    return node.metadata.deletion_timestamp is None and ready is not None and ready.status == "True"
