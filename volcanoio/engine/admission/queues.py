"""Defaults and rules of a Queue, of its position in the tree, and of its use by Jobs and PodGroups.

Source: Volcano, pkg/webhooks/admission/queues. A new queue without a state counts as Open.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from functools import cached_property
from operator import itemgetter

from volcanoio.engine.admission.request import AdmissionLookup, AdmissionSettings, Findings
from volcanoio.engine.queues.members import queue_and_phase_of
from volcanoio.framework.arguments import few, shortened, suggestion
from volcanoio.model import kinds, names, quantity
from volcanoio.model.base import ApiObject, Manifest
from volcanoio.model.core import ResourceList
from volcanoio.model.scheduling import PodGroupPhase, Queue, QueueState
from volcanoio.model.workloads import NativePodGroup

QUEUE_PATH = "spec.queue"
_QUOTED = 200
"""Characters of a hierarchy that a message quotes."""


def not_found(queue: str) -> str:
    """Return the message of an API server for a missing queue."""
    return f'queue.scheduling.volcano.sh "{queue}" not found'


def check_open(name: str, lookup: AdmissionLookup, findings: Findings, *, what: str) -> Queue | None:
    """Return the queue if it exists, and refuse one that is not open; `what` is "job" or "PodGroup"."""
    if not isinstance(queue := lookup.get(kinds.QUEUE, name), Queue):
        known = (other.metadata.name for other in lookup.all(kinds.QUEUE))
        hint = suggestion(name, sorted(other for other in known if other != names.ROOT_QUEUE))
        sought = "job queue" if what == "job" else "queue"
        rule = f"unable to find {sought}: {not_found(name)}{hint}"
        findings.refuse(QUEUE_PATH, rule, f"create it first (vcctl queue create -n {name})")
        return None
    if not queue.is_open:
        findings.refuse(
            QUEUE_PATH,
            f"can only submit {what} to queue with state `Open`, queue `{name}` status is `{queue.status.state}`",
            f"open it (vcctl queue operate -n {name} -a open) or choose another queue",
        )
    return queue


def check_job_queue(name: str, lookup: AdmissionLookup, findings: Findings) -> None:
    """Check that a Job's queue is an open leaf below the root."""
    if name == names.ROOT_QUEUE:
        findings.refuse(QUEUE_PATH, "can not submit job to root queue", "choose a queue below it")
        return
    if check_open(name, lookup, findings, what="job") is None:
        return
    children = [
        queue.metadata.name
        for queue in lookup.all(kinds.QUEUE)
        if isinstance(queue, Queue) and queue.spec.parent == name
    ]
    if children:
        findings.refuse(
            QUEUE_PATH,
            f"can only submit job to leaf queue, queue `{name}` has {len(children)} child queues",
            f"choose one of them: {few(children)}",
        )


MIN_WEIGHT, MAX_WEIGHT = 1, 2**31 - 1
_NATIVE_RESOURCES = frozenset({"cpu", "memory", "ephemeral-storage", "storage", "pods"})


def default_queue(queue: Manifest, *, creating: bool) -> None:
    """Set the defaults in place. A weight of 0 gets the default on creation, and is refused later."""
    if not isinstance(spec := queue.setdefault("spec", {}), dict):
        return
    if spec.get("reclaimable") is None:
        spec["reclaimable"] = True
    if spec.get("weight") is None or (creating and spec["weight"] == 0):
        spec["weight"] = MIN_WEIGHT
    annotations = (queue.get("metadata") or {}).get("annotations") or {}
    hierarchy, weights = (annotations.get(key) for key in (names.HIERARCHY, names.HIERARCHY_WEIGHTS))
    if hierarchy and weights and str(hierarchy).split("/")[0] != names.ROOT_QUEUE:
        annotations[names.HIERARCHY] = f"{names.ROOT_QUEUE}/{hierarchy}"
        annotations[names.HIERARCHY_WEIGHTS] = f"1/{weights}"


def check_queue(queue: Queue, old: Queue | None, others: Iterable[Queue], findings: Findings) -> None:
    """Check weight, state, amounts and the hierarchy annotations."""
    weight = queue.spec.weight
    if not MIN_WEIGHT <= weight <= MAX_WEIGHT:
        findings.refuse(
            "spec.weight",
            f"queue weight must be a positive integer between {MIN_WEIGHT} and {MAX_WEIGHT}, not {weight}",
            "the default is 1",
        )
    _check_state(queue, old, findings)
    _check_amounts(queue, findings)
    _check_hierarchy(queue, others, findings)


def _check_state(queue: Queue, old: Queue | None, findings: Findings) -> None:
    """Check the state: a client may set Open or Closed; the controller's states may stay, which Volcano refuses.

    A new queue may have any state, as a copy of another one has: the server drops it.
    """
    state = queue.status.state
    allowed = ("", *QueueState) if old is None else ("", QueueState.OPEN, QueueState.CLOSED, old.status.state)
    if state not in allowed:
        hint = suggestion(state, ["Open", "Closed"])
        findings.refuse("status.state", f'queue state must be in [Open Closed], not "{state}"{hint}')


def _check_amounts(queue: Queue, findings: Findings) -> None:
    """Check that quantities are valid and guarantee ≤ deserved ≤ capability."""
    spec = queue.spec
    lists = {
        "spec.capability": spec.capability,
        "spec.deserved": spec.deserved,
        "spec.guarantee.resource": spec.guarantee.resource,
    }
    is_valid = [_check_quantities(amounts, path, findings) for path, amounts in lists.items()]
    if not all(is_valid):
        return
    for name, amount in sorted(spec.guarantee.resource.items()):
        if name not in spec.deserved:
            findings.refuse(
                f"spec.deserved.{name}",
                f"deserved[{name}] must be >= guarantee[{name}]={quantity.canonical(amount)}",
                f"set it to {amount} or more",
            )
    for name in sorted(spec.guarantee.resource.keys() & spec.deserved.keys()):
        _check_deserved(queue, name, "guarantee", findings)
    for name in sorted(spec.deserved.keys() & spec.capability.keys()):
        _check_deserved(queue, name, "capability", findings)


def _check_quantities(amounts: ResourceList, path: str, findings: Findings) -> bool:
    is_valid = True
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
        is_valid = False
    return is_valid


def _is_extended(name: str) -> bool:
    return name not in _NATIVE_RESOURCES and not name.startswith("hugepages-")


def _check_deserved(queue: Queue, name: str, bound: str, findings: Findings) -> None:
    """Check that the deserved amount of a resource is at least the guarantee, or at most the capability."""
    is_lower_bound = bound == "guarantee"
    bounds = queue.spec.guarantee.resource if is_lower_bound else queue.spec.capability
    deserved, limit = str(queue.spec.deserved[name]), str(bounds[name])
    excess = quantity.parse(deserved) - quantity.parse(limit)
    if excess < 0 if is_lower_bound else excess > 0:
        findings.refuse(
            f"spec.deserved.{name}",
            f"deserved[{name}]={quantity.canonical(deserved)} must be {'>=' if is_lower_bound else '<='} "
            f"{bound}[{name}]={quantity.canonical(limit)}",
            f"raise deserved or lower {bound}" if is_lower_bound else f"lower deserved or raise {bound}",
        )


def _check_hierarchy(queue: Queue, others: Iterable[Queue], findings: Findings) -> None:
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
    all_weights = shortened(weights, _QUOTED)
    for weight in weights.split("/"):
        if rule := _weight_rule(weight):
            path_of_weights = f"metadata.annotations[{names.HIERARCHY_WEIGHTS}]"
            findings.refuse(path_of_weights, f"{weight} in the {all_weights} {rule}", "write such as 1/2/0.5")
    below = f"{hierarchy}/"
    for other in others:
        theirs = other.metadata.annotations.get(names.HIERARCHY, "")
        if other.metadata.name != queue.metadata.name and hierarchy and theirs.startswith(below):
            findings.refuse(
                path,
                f"{shortened(hierarchy, _QUOTED)} is not allowed to be in the sub path of {shortened(theirs, _QUOTED)} "
                f"of queue {other.metadata.name}",
                "queues are leaves of this hierarchy; choose a path of its own",
            )


def _weight_rule(text: str) -> str:
    """Return the rule that a weight of the hierarchy breaks, "" for none; messages about bad numbers are Go's."""
    try:
        weight = float(text)
    except ValueError:
        return f'is invalid number: strconv.ParseFloat: parsing "{text}": invalid syntax'
    return "" if weight > 0 else "must be larger than 0"


class QueueTree:
    """All queues as they will be after the write; a queue without a parent belongs to the root."""

    def __init__(self, queues: Iterable[Queue], written: Queue | None = None) -> None:
        self.queues = {queue.metadata.name: queue for queue in queues}
        if written is not None:
            self.queues[written.metadata.name] = written

    def parent_of(self, queue: Queue) -> str:
        """Return the name of the parent; "" for the root."""
        return "" if queue.metadata.name == names.ROOT_QUEUE else queue.spec.parent or names.ROOT_QUEUE

    def children(self, name: str) -> list[Queue]:
        """Return the queues directly below, sorted by name."""
        return self._children.get(name, [])

    @cached_property
    def _children(self) -> dict[str, list[Queue]]:
        found: dict[str, list[Queue]] = {}
        for _, queue in sorted(self.queues.items()):
            found.setdefault(self.parent_of(queue), []).append(queue)
        return found

    def ancestors(self, queue: Queue) -> Iterator[Queue]:
        """Iterate from the parent up to the root, without it; stops at a missing parent or a cycle."""
        seen = {queue.metadata.name}
        name = self.parent_of(queue)
        while name != names.ROOT_QUEUE and name not in seen and (above := self.queues.get(name)) is not None:
            seen.add(name)
            yield above
            name = self.parent_of(above)


def check_parent(
    queue: Queue, old: Queue | None, tree: QueueTree, settings: AdmissionSettings, findings: Findings
) -> None:
    """Check that a new queue, or one whose parent changes, fits under its parent."""
    name, parent = queue.metadata.name, tree.parent_of(queue)
    if not parent or (old is not None and tree.parent_of(old) == parent):
        return
    path = "spec.parent"
    if parent == name:
        findings.refuse(
            path, f"queue {name} cannot use itself as parent", f"choose another queue, or {names.ROOT_QUEUE}"
        )
        return
    if parent == names.ROOT_QUEUE:
        return
    if (above := tree.queues.get(parent)) is None:
        others = sorted(tree.queues.keys() - {name})
        findings.refuse(
            path,
            f"failed to get parent queue {parent} of queue {name}: {not_found(parent)}{suggestion(parent, others)}",
            "create the parent first",
        )
        return
    ancestors = list(tree.ancestors(queue))
    if tree.parent_of(ancestors[-1]) == name:
        findings.refuse(path, f"queue {name} would be below itself", "choose a parent outside its own branch")
    elif len(ancestors) + 1 > settings.max_queue_depth:
        findings.refuse(
            path,
            f"queue {name} exceeds the maximum allowed depth of {settings.max_queue_depth}",
            "choose a parent nearer to the root",
        )
    if [child.metadata.name for child in tree.children(parent)] == [name] and _allocated_pods(above):
        findings.refuse(
            path,
            f"queue {parent} cannot be the parent queue of queue {name} because it has allocated Pods: "
            f"{_allocated_pods(above)}",
            "wait until its jobs are done, or choose another parent",
        )


def check_hierarchy_amounts(queue: Queue, old: Queue | None, tree: QueueTree, findings: Findings) -> None:
    """Check that the amounts of a queue and its siblings fit the parent, and those of its children fit the queue."""
    if queue.metadata.name == names.ROOT_QUEUE or (
        old is not None and _hierarchy_fields(old) == _hierarchy_fields(queue)
    ):
        return
    if ancestors := list(tree.ancestors(queue)):
        for resource, amount in sorted(queue.spec.capability.items()):
            limit = next((above for above in ancestors if resource in above.spec.capability), None)
            if limit is not None and _amount(amount) > _amount(limit.spec.capability[resource]):
                findings.refuse(
                    f"spec.capability.{resource}",
                    f"queue {queue.metadata.name} capability[{resource}]={amount} exceeds its ancestor's "
                    f"capability={limit.spec.capability[resource]}",
                    f"lower it, or raise that of queue {limit.metadata.name}",
                )
        _check_sums(ancestors[0], "parent queue", tree, findings)
    if tree.children(queue.metadata.name):
        _check_children_capability(queue, tree, findings)
        _check_sums(queue, "queue", tree, findings)


def check_root(queue: Queue, old: Queue | None, settings: AdmissionSettings, findings: Findings) -> None:
    """Refuse changes of the root's amounts, which are the cluster's."""
    if queue.metadata.name != names.ROOT_QUEUE or old is None or not settings.root_queue_protection:
        return
    for field, before, after in (
        ("capability", old.spec.capability, queue.spec.capability),
        ("deserved", old.spec.deserved, queue.spec.deserved),
        ("guarantee", old.spec.guarantee, queue.spec.guarantee),
    ):
        if before != after:
            findings.refuse(
                f"spec.{field}",
                "root queue's resource attributes (capability, deserved, guarantee) cannot be modified",
                "they are what the cluster has; set them on the queues below",
            )


def check_deletion(
    name: str, tree: QueueTree, groups: Iterable[ApiObject], settings: AdmissionSettings, findings: Findings
) -> None:
    """Refuse the deletion of root and default, and of queues with children or, if configured, with pods."""
    path = "metadata.name"
    if name in (names.DEFAULT_QUEUE, names.ROOT_QUEUE):
        findings.refuse(path, f"`{name}` queue can not be deleted", "close it instead, or leave it empty")
        return
    queue = tree.queues.get(name)
    if queue is not None and settings.queue_allocated_pods_check and _allocated_pods(queue):
        findings.refuse(
            path,
            f"queue {name} cannot be deleted because it has allocated Pods: {_allocated_pods(queue)}",
            "close it and wait until its jobs are done",
        )
    if children := [child.metadata.name for child in tree.children(name)]:
        findings.refuse(
            path,
            f"queue {name} can not be deleted because it has {len(children)} child queues: {few(children)}",
            "delete or move them first",
        )
    if not findings.messages:
        _warn_of_unfinished_groups(name, groups, findings)


def _warn_of_unfinished_groups(name: str, groups: Iterable[ApiObject], findings: Findings) -> None:
    waiting: list[str] = []
    running: list[str] = []
    for group in groups:
        queue, phase = queue_and_phase_of(group)
        if queue == name and phase != PodGroupPhase.COMPLETED:
            started = phase in (PodGroupPhase.RUNNING, PodGroupPhase.UNKNOWN)
            (running if started else waiting).append(_owner_of(group))
    counted = ((waiting, "waiting"), (running, "running"))
    if left := [f"{len(found)} {what} ({few(found, 5)})" for found, what in counted if found]:
        advice = "what waits stays pending until a queue of that name exists again"
        findings.warn("metadata.name", f"queue {name} still has {' and '.join(left)}", advice)


def _owner_of(group: ApiObject) -> str:
    """Return kind and name by which users know a PodGroup or native group: its Job, or else itself."""
    meta, owner = group.metadata, group.metadata.controller
    if isinstance(group, NativePodGroup):
        return f"{kinds.NATIVE_POD_GROUP} {meta.key}"
    if owner is not None and owner.api_version == kinds.JOB.api_version:
        return f"Job {meta.namespace}/{owner.name}"
    return f"PodGroup {meta.key}"


def _check_children_capability(queue: Queue, tree: QueueTree, findings: Findings) -> None:
    """Check the first capability that each branch below defines for a resource."""
    own = queue.spec.capability
    too_much = [
        (resource, required, below.metadata.name)
        for below, hidden in _descendants(queue.metadata.name, tree)
        for resource, required in below.spec.capability.items()
        if resource in own
        and _amount(required) > _amount(own[resource])
        and not any(resource in above.spec.capability for above in hidden)
    ]
    for resource, required, name in sorted(too_much, key=itemgetter(0)):
        findings.refuse(
            f"spec.capability.{resource}",
            f"queue {queue.metadata.name} capability[{resource}]={own[resource]} is smaller than its descendants' max "
            f"capability={required}",
            f"raise it, or lower that of queue {name} first",
        )


def _descendants(name: str, tree: QueueTree) -> Iterator[tuple[Queue, tuple[Queue, ...]]]:
    """Iterate by level over the queues below a queue, each with those between the two."""
    waiting: deque[tuple[Queue, tuple[Queue, ...]]] = deque((child, ()) for child in tree.children(name))
    seen = {name}
    while waiting:
        queue, between = waiting.popleft()
        if queue.metadata.name not in seen:
            seen.add(queue.metadata.name)
            yield queue, between
            waiting += ((child, (*between, queue)) for child in tree.children(queue.metadata.name))


def _check_sums(parent: Queue, called: str, tree: QueueTree, findings: Findings) -> None:
    """Check that the sums of the children's guarantees and deserved amounts fit the parent's; a missing amount is 0.

    `called` is Volcano's word for the parent: "queue" where it is the one that is written.
    """
    children = tree.children(parent.metadata.name)
    for field in ("guarantee", "deserved"):
        own = _amounts_of(parent, field)
        sums: dict[str, Fraction] = {}
        for child in children:
            for resource, amount in _amounts_of(child, field).items():
                sums[resource] = sums.get(resource, Fraction(0)) + _amount(amount)
        for resource, total in sorted(sums.items()):
            if total > _amount(own.get(resource, 0)):
                findings.refuse(
                    f"spec.{field}{'.resource' if field == 'guarantee' else ''}.{resource}",
                    f"{called} {parent.metadata.name} validation failed: sum of children's {field} "
                    f"({resource} {_format_amount(total)}) exceeds parent's {field} limit "
                    f"({resource} {own.get(resource, 0)})",
                    f"lower the children's {field} or raise that of {parent.metadata.name}",
                )


def _amounts_of(queue: Queue, field: str) -> ResourceList:
    return queue.spec.guarantee.resource if field == "guarantee" else queue.spec.deserved


def _hierarchy_fields(queue: Queue) -> tuple[str, ResourceList, ResourceList, ResourceList]:
    spec = queue.spec
    return (spec.parent or names.ROOT_QUEUE, spec.capability, spec.deserved, spec.guarantee.resource)


def _amount(text: str | int | float) -> Fraction:
    """Return the exact amount; an invalid quantity, which another rule reports, counts as 0."""
    try:
        return quantity.parse(str(text))
    except quantity.QuantityError:
        return Fraction(0)


def _format_amount(amount: Fraction) -> str:
    return str(amount) if amount.denominator == 1 else f"{float(amount):g}"


def _allocated_pods(queue: Queue) -> Fraction:
    allocated: Mapping[str, str | int | float] = queue.status.allocated
    return _amount(allocated.get("pods", 0))
