"""Rules of a Queue's place among the others: parent, depth, and what a branch may hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction

from volcanoio.engine.admission.findings import Findings
from volcanoio.engine.admission.request import AdmissionSettings
from volcanoio.framework.arguments import suggestion
from volcanoio.model import names, quantity
from volcanoio.model.core import ResourceList
from volcanoio.model.scheduling import Queue


class Tree:
    """All queues as they would be after the write; a queue that names no parent hangs under the root."""

    def __init__(self, queues: Iterable[Queue], written: Queue | None = None) -> None:
        self.queues = {queue.metadata.name: queue for queue in queues}
        if written is not None:
            self.queues[written.metadata.name] = written

    def parent_of(self, queue: Queue) -> str:
        """The name of the parent; "" for the root."""
        return "" if queue.metadata.name == names.ROOT_QUEUE else queue.spec.parent or names.ROOT_QUEUE

    def children(self, name: str) -> list[Queue]:
        """The queues directly below, sorted by name."""
        return [queue for _, queue in sorted(self.queues.items()) if self.parent_of(queue) == name]

    def ancestors(self, queue: Queue) -> Iterator[Queue]:
        """From the parent up to but without the root; stops where a parent is missing or comes again."""
        seen = {queue.metadata.name}
        name = self.parent_of(queue)
        while name != names.ROOT_QUEUE and name not in seen and (above := self.queues.get(name)) is not None:
            seen.add(name)
            yield above
            name = self.parent_of(above)


def check_place(queue: Queue, old: Queue | None, tree: Tree, settings: AdmissionSettings, findings: Findings) -> None:
    """A new queue, or one whose parent changes, must fit under its parent."""
    name, parent = queue.metadata.name, tree.parent_of(queue)
    if not parent or (old is not None and tree.parent_of(old) == parent):
        return
    path = "spec.parent"
    if parent == name:
        findings.refuse(path, "queue cannot use itself as parent", f"choose another queue, or {names.ROOT_QUEUE}")
        return
    if parent == names.ROOT_QUEUE:
        return
    above = tree.queues.get(parent)
    if above is None:
        others = sorted(tree.queues.keys() - {name})
        findings.refuse(
            path,
            f'parent queue "{parent}" of queue {name} does not exist{suggestion(parent, others)}',
            "create the parent first",
        )
        return
    ancestors = list(tree.ancestors(queue))
    if tree.parent_of(ancestors[-1]) == name:
        findings.refuse(path, f"queue {name} would be below itself", "choose a parent outside its own branch")
    elif len(ancestors) + 1 > settings.max_queue_depth:
        findings.refuse(
            path,
            f"queue depth {len(ancestors) + 1} exceeds the maximum of {settings.max_queue_depth}",
            "choose a parent nearer to the root, or raise --max-queue-depth",
        )
    if [child.metadata.name for child in tree.children(parent)] == [name] and _pods(above):
        findings.refuse(
            path,
            f"queue {parent} cannot be the parent queue of queue {name} because it has allocated Pods: {_pods(above)}",
            "wait until its jobs are done, or choose another parent",
        )


def check_branch(queue: Queue, old: Queue | None, tree: Tree, findings: Findings) -> None:
    """What a queue and its siblings are promised fits into the parent, and into the queue what its children are."""
    if queue.metadata.name == names.ROOT_QUEUE or (old is not None and _promises(old) == _promises(queue)):
        return
    ancestors = list(tree.ancestors(queue))
    if ancestors:
        for resource, amount in sorted(queue.spec.capability.items()):
            limit = next((above for above in ancestors if resource in above.spec.capability), None)
            if limit is not None and _amount(amount) > _amount(limit.spec.capability[resource]):
                findings.refuse(
                    f"spec.capability.{resource}",
                    f"capability {amount} exceeds the {limit.spec.capability[resource]} of queue {limit.metadata.name}",
                    "lower it, or raise that queue's",
                )
        _check_sums(ancestors[0], tree, findings)
    if tree.children(queue.metadata.name):
        _check_children_capability(queue, tree, findings)
        _check_sums(queue, tree, findings)


def check_root(queue: Queue, old: Queue | None, settings: AdmissionSettings, findings: Findings) -> None:
    """The root's amounts are the cluster's."""
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
                f"root queue's {field} cannot be changed, it is what the cluster has",
                "set it on the queues below",
            )


def check_deletion(name: str, tree: Tree, settings: AdmissionSettings, findings: Findings) -> None:
    """Root and default stay; a queue with children or, if asked for, with pods stays."""
    path = "metadata.name"
    if name in (names.DEFAULT_QUEUE, names.ROOT_QUEUE):
        findings.refuse(path, f"`{name}` queue can not be deleted", "close it instead, or leave it empty")
        return
    queue = tree.queues.get(name)
    if queue is not None and settings.queue_allocated_pods_check and _pods(queue):
        findings.refuse(
            path,
            f"queue {name} cannot be deleted because it has allocated Pods: {_pods(queue)}",
            "close it and wait until its jobs are done",
        )
    if children := [child.metadata.name for child in tree.children(name)]:
        findings.refuse(
            path,
            f"queue {name} can not be deleted because it has {len(children)} child queues: {', '.join(children)}",
            "delete or move them first",
        )


def _check_children_capability(queue: Queue, tree: Tree, findings: Findings) -> None:
    for resource, amount in sorted(queue.spec.capability.items()):
        for owner, wanted in _defined_below(queue.metadata.name, resource, tree):
            if _amount(wanted) > _amount(amount):
                findings.refuse(
                    f"spec.capability.{resource}",
                    f"capability {amount} is less than the {wanted} of queue {owner} below it",
                    "raise it, or lower that queue's first",
                )


def _defined_below(name: str, resource: str, tree: Tree) -> Iterator[tuple[str, str | int | float]]:
    """The first capability that each branch below defines for a resource."""
    waiting = tree.children(name)
    seen = {name}
    while waiting:
        queue = waiting.pop(0)
        if queue.metadata.name in seen:
            continue
        seen.add(queue.metadata.name)
        if resource in queue.spec.capability:
            yield queue.metadata.name, queue.spec.capability[resource]
        else:
            waiting += tree.children(queue.metadata.name)


def _check_sums(parent: Queue, tree: Tree, findings: Findings) -> None:
    """The children's guarantees and deserved amounts, summed, fit the parent's; what that leaves out is 0."""
    children = tree.children(parent.metadata.name)
    for field in ("guarantee", "deserved"):
        own = _named(parent, field)
        sums: dict[str, Fraction] = {}
        for child in children:
            for resource, amount in _named(child, field).items():
                sums[resource] = sums.get(resource, Fraction(0)) + _amount(amount)
        for resource, total in sorted(sums.items()):
            if total > _amount(own.get(resource, 0)):
                findings.refuse(
                    f"spec.{field}{'.resource' if field == 'guarantee' else ''}.{resource}",
                    f"the {field} of the queues below {parent.metadata.name} sums up to {_shown(total)} {resource}, "
                    f"more than its own {own.get(resource, 0)}",
                    f"lower the children's {field} or raise that of {parent.metadata.name}",
                )


def _named(queue: Queue, field: str) -> ResourceList:
    return queue.spec.guarantee.resource if field == "guarantee" else queue.spec.deserved


def _promises(queue: Queue) -> tuple[str, ResourceList, ResourceList, ResourceList]:
    spec = queue.spec
    return (spec.parent or names.ROOT_QUEUE, spec.capability, spec.deserved, spec.guarantee.resource)


def _amount(text: str | int | float) -> Fraction:
    """The exact amount; what is no quantity is named by the queue's own rules and counts as nothing here."""
    try:
        return quantity.parse(str(text))
    except quantity.QuantityError:
        return Fraction(0)


def _shown(amount: Fraction) -> str:
    return str(amount) if amount.denominator == 1 else f"{float(amount):g}"


def _pods(queue: Queue) -> Fraction:
    allocated: Mapping[str, str | int | float] = queue.status.allocated
    return _amount(allocated.get("pods", 0))
