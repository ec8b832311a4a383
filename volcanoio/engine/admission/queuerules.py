"""Defaults and rules of a Queue by itself (Volcano: pkg/webhooks/admission/queues). Its place in the tree is beside."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from volcanoio.engine.admission.findings import Findings
from volcanoio.framework.arguments import suggestion
from volcanoio.model import names, quantity
from volcanoio.model.base import Manifest
from volcanoio.model.core import ResourceList
from volcanoio.model.scheduling import Queue, QueueState

LOWEST_WEIGHT, HIGHEST_WEIGHT = 1, 2**31 - 1
_NATIVE = frozenset({"cpu", "memory", "ephemeral-storage", "storage", "pods"})


def default_queue(queue: Manifest) -> None:
    """Set the defaults in place. An explicit weight of 0 is left for the rules to refuse."""
    spec = queue.setdefault("spec", {})
    if not isinstance(spec, dict):
        return
    if spec.get("reclaimable") is None:
        spec["reclaimable"] = True
    if spec.get("weight") is None:
        spec["weight"] = LOWEST_WEIGHT
    annotations = (queue.get("metadata") or {}).get("annotations") or {}
    hierarchy, weights = (annotations.get(key) for key in (names.HIERARCHY, names.HIERARCHY_WEIGHTS))
    if hierarchy and weights and str(hierarchy).split("/")[0] != names.ROOT_QUEUE:
        annotations[names.HIERARCHY] = f"{names.ROOT_QUEUE}/{hierarchy}"
        annotations[names.HIERARCHY_WEIGHTS] = f"1/{weights}"


def check_queue(queue: Queue, old: Queue | None, others: Iterable[Queue], findings: Findings) -> None:
    """Weight, state, amounts and the hierarchy annotations."""
    weight = queue.spec.weight
    if not LOWEST_WEIGHT <= weight <= HIGHEST_WEIGHT:
        findings.refuse(
            "spec.weight",
            f"queue weight must be a positive integer between {LOWEST_WEIGHT} and {HIGHEST_WEIGHT}, not {weight}",
            "the default is 1",
        )
    _check_state(queue, old, findings)
    _check_amounts(queue, findings)
    _check_hierarchy(queue, others, findings)


def _check_state(queue: Queue, old: Queue | None, findings: Findings) -> None:
    """A client may make a queue Open or Closed; what the controller set stays (Volcano refuses that, a mend)."""
    state = queue.status.state
    allowed = ("", QueueState.OPEN, QueueState.CLOSED)
    if state not in allowed and (old is None or state != old.status.state):
        hint = suggestion(state, ["Open", "Closed"])
        findings.refuse("status.state", f'queue state must be in [Open Closed], not "{state}"{hint}')


def _check_amounts(queue: Queue, findings: Findings) -> None:
    """Quantities parse; guarantee ≤ deserved ≤ capability."""
    spec = queue.spec
    lists = {
        "spec.capability": spec.capability,
        "spec.deserved": spec.deserved,
        "spec.guarantee.resource": spec.guarantee.resource,
    }
    sound = [_check_list(amounts, path, findings) for path, amounts in lists.items()]
    if not all(sound):
        return
    for name, amount in sorted(spec.guarantee.resource.items()):
        if name not in spec.deserved:
            findings.refuse(
                f"spec.deserved.{name}",
                f"deserved must name {name}, as guarantee does",
                f"set it to {amount} or more",
            )
    _check_below(spec.guarantee.resource, spec.deserved, "guarantee", "deserved", findings)
    _check_below(spec.deserved, spec.capability, "deserved", "capability", findings)


def _check_list(amounts: ResourceList, path: str, findings: Findings) -> bool:
    sound = True
    for name, text in sorted(amounts.items()):
        try:
            amount = quantity.parse(str(text))
        except quantity.QuantityError as error:
            rule, _, advice = str(error).partition("; ")
        else:
            if amount < 0:
                rule, advice = f"{text} is negative", "give 0 or more"
            elif amount.denominator != 1 and _is_extended(name):
                rule, advice = f"{text} is not a whole number, as {name} must be", "give a whole number"
            else:
                continue
        findings.refuse(f"{path}.{name}", rule, advice)
        sound = False
    return sound


def _is_extended(name: str) -> bool:
    return name not in _NATIVE and not name.startswith("hugepages-")


def _check_below(
    low: ResourceList, high: Mapping[str, str | int | float], less: str, more: str, findings: Findings
) -> None:
    for name in sorted(low.keys() & high.keys()):
        if quantity.parse(str(low[name])) > quantity.parse(str(high[name])):
            findings.refuse(
                f"spec.{more}.{name}",
                f"{more} should be no less than {less} ({high[name]} < {low[name]})",
                f"raise {more} or lower {less}",
            )


def _check_hierarchy(queue: Queue, others: Iterable[Queue], findings: Findings) -> None:
    """The annotations of the hierarchical drf plugin."""
    path = f"metadata.annotations[{names.HIERARCHY}]"
    annotations = queue.metadata.annotations
    hierarchy = annotations.get(names.HIERARCHY, "")
    weights = annotations.get(names.HIERARCHY_WEIGHTS, "")
    if not hierarchy and not weights:
        return
    if len(hierarchy.split("/")) != len(weights.split("/")):
        findings.refuse(
            path,
            f"{names.HIERARCHY} must have the same length with {names.HIERARCHY_WEIGHTS}",
            "give each part of the path one weight, such as root/a and 1/2",
        )
    for weight in weights.split("/"):
        if not _is_positive(weight):
            findings.refuse(
                f"metadata.annotations[{names.HIERARCHY_WEIGHTS}]",
                f'"{weight}" in the weights is not a number above 0',
                "write such as 1/2/0.5",
            )
    for other in others:
        theirs = other.metadata.annotations.get(names.HIERARCHY, "")
        if other.metadata.name != queue.metadata.name and hierarchy and theirs.startswith(f"{hierarchy}/"):
            findings.refuse(
                path,
                f"{hierarchy} is not allowed to be in the sub path of {theirs} of queue {other.metadata.name}",
                "queues are leaves of this hierarchy; choose a path of its own",
            )


def _is_positive(text: str) -> bool:
    try:
        return float(text) > 0
    except ValueError:
        return False
