"""The index of pods by what selects them and what they carry: the counts behind pod affinity, spread and host ports.

Only what some pod's terms, or a plugin, ask for is counted; where nobody asks, `active` is false and nothing is kept.
New pods and new terms are taken in when a session opens (`settle`), a bit at a time; what moves pods afterwards,
undoing included, goes through the ledger, which tells of it here at once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping

import msgspec

from volcanoio.engine.scheduling.kins import Group, Groups, Kin, KinKey
from volcanoio.engine.scheduling.loads import LOADS, Load
from volcanoio.engine.scheduling.podterms import Labels, asks, keys_of, label_keys, resolve
from volcanoio.engine.scheduling.shapes import Shapes
from volcanoio.engine.scheduling.tally import PodTally
from volcanoio.engine.scheduling.tasks import TaskInfo
from volcanoio.framework.scheduling.podterms import Carried, PodTerms, Selectors, TermRole
from volcanoio.framework.scheduling.views import TaskStatus

AT_ONCE = 256
"""Tasks taken in between two places where other work may run."""
_NO_LABELS: Labels = {}


class PodIndex:
    """Implements `podterms.PodCounts`."""

    def __init__(self, shapes: Shapes, tasks: Mapping[str, TaskInfo]) -> None:
        self.active = False
        self.version = 0
        """As `podterms.PodCounts`."""
        self.namespaces: Callable[[str], Labels] = lambda _: _NO_LABELS
        """The labels of a namespace."""
        self._shapes = shapes
        self._tasks = tasks
        self._keys: tuple[str, ...] = ()
        self._groups = Groups(self._labels_of)
        self._carried: dict[Hashable, dict[Carried, PodTally]] = {}
        self._carriers: dict[Carried, int] = {}
        """How many kins carry it."""
        self._fresh: dict[str, TaskInfo] = {}
        """Tasks without a kin."""
        self._unshaped: dict[KinKey, Kin] = {}
        """Kins that may need another shape."""
        self._idle: dict[KinKey, Kin] = {}
        """Kins that lost their last task, as far as is known."""
        self._gone: dict[str, TaskInfo] = {}
        """Tasks that the session evicted."""
        self._asking = 0
        """How many kins ask something."""
        self._asked: dict[Selectors, Group] = {}
        """Groups that plugins asked for."""
        self._sessions = 0
        self._seen: dict[str, Labels] = {}
        """The labels of namespaces that were read."""
        self.topology_keys: dict[str, None] = {}
        """As `podterms.PodCounts`, in the order in which they came."""
        self._encode = msgspec.msgpack.Encoder(order="sorted").encode

    # What the ledger tells: `add` always, the others while active.

    def add(self, task: TaskInfo) -> None:
        """A new task."""
        if self.active:
            self._fresh[task.uid] = task
        elif asks(task.pod, task.plain):
            self._activate()

    def remove(self, task: TaskInfo) -> None:
        """A task is gone, its status and node being as they were."""
        self._fresh.pop(task.uid, None)
        kin, task.kin = task.kin, None
        gone = self._gone.pop(task.uid, None) is not None
        if kin is None:
            return
        load = LOADS[task.status]
        if load and task.node:
            if not gone:
                _count(kin.everyone, task.node, "")
            if load is not Load.RELEASES:
                _count(kin.living, task.node, "")
        del kin.tasks[task.uid]
        if not kin.tasks:
            self._idle[kin.key] = kin

    def move(self, task: TaskInfo, status: TaskStatus, node: str) -> None:
        """A task gets another status or node, which it does not have yet."""
        kin = task.kin
        gone = self._gone.pop(task.uid, None) is not None
        if kin is None or not (kin.everyone or kin.living):
            return
        before, load = LOADS[task.status], LOADS[status]
        old, new = task.node if before else "", node if load else ""
        _count(kin.living, "" if before is Load.RELEASES else old, "" if load is Load.RELEASES else new)
        _count(kin.everyone, "" if gone else old, new)

    def seated(self, tasks: Iterable[TaskInfo]) -> None:
        """Pending tasks were put on nodes."""
        for task in tasks:
            kin = task.kin
            if kin is not None and (kin.everyone or kin.living):
                node = task.node
                for tally in kin.everyone:
                    tally.add(node, 1)
                for tally in kin.living:
                    tally.add(node, 1)

    def evicted(self, task: TaskInfo) -> None:
        """The session made a task Releasing: for what else it decides, the pod is gone."""
        if task.kin is not None and task.node and task.uid not in self._gone:
            self._gone[task.uid] = task
            _count(task.kin.everyone, task.node, "")

    # What the session does.

    def settle(self) -> Iterator[None]:
        """Take in what came since the last time, before plugins open."""
        self._sessions += 1
        if self.active:
            for task in list(self._gone.values()):  # what was evicted and is still there counts again
                self._bring_back(task)
            self._retire()
            if any(self.namespaces(name) != labels for name, labels in self._seen.items()):
                self._start_over()
            yield from self._take_in()

    def matching(self, selectors: Selectors, *, terminating: bool = True) -> PodTally:
        """As `podterms.PodCounts`."""
        group = self._groups.all.get(selectors)
        if group is None:
            if not self.active:
                self._activate()
            self._learn(keys_of(selectors))
            for _ in self._take_in():
                pass
            group = self._group(selectors)
        self._asked[selectors] = group
        group.asked = self._sessions
        return self._tally(group, terminating=terminating)

    def carrying(self, carried: Carried) -> PodTally:
        """As `podterms.PodCounts`."""
        tally = self._carried.get(carried.topic, {}).get(carried)
        return PodTally() if tally is None else tally

    def carried(self, topic: Hashable) -> Collection[Carried]:
        """As `podterms.PodCounts`."""
        return self._carried.get(topic, {}).keys()

    # Taking in.

    def _activate(self) -> None:
        self.active = True
        self._fresh = dict(self._tasks)
        self.version += 1

    def _take_in(self) -> Iterator[None]:
        """Give fresh tasks their kins."""
        keys: dict[str, None] = {}
        for number, task in enumerate(list(self._fresh.values()), 1):
            if asks(task.pod, task.plain):
                keys.update(dict.fromkeys(label_keys(task.pod)))
            if not number % AT_ONCE:
                yield
        self._learn(keys)
        for number, uid in enumerate(list(self._fresh), 1):
            self._join(self._fresh.pop(uid))
            if not number % AT_ONCE:
                yield
        for key in list(self._unshaped):
            self._reshape(self._unshaped.pop(key))

    def _learn(self, keys: Iterable[str]) -> None:
        """Labels that selectors read from now on: those that nobody read so far make all kins anew."""
        new = set(keys).difference(self._keys)
        if new:
            self._keys = (*self._keys, *sorted(new))
            if self._groups.kins:
                self._start_over()

    def _start_over(self) -> None:
        """Forget kins and counts; all tasks are fresh again. What plugins asked for they ask for again."""
        for kin in self._groups.kins.values():
            self._shapes.part(kin.shape)
        for task in self._tasks.values():
            task.kin = None
        self._groups = Groups(self._labels_of)
        for table in (self._carried, self._carriers, self._unshaped, self._idle, self._gone, self._asked, self._seen):
            table.clear()
        self.topology_keys.clear()
        self._asking = 0
        self._fresh = dict(self._tasks)
        self.version += 1

    def _join(self, task: TaskInfo) -> None:
        """Give a task its kin, and count it."""
        asking = b""
        if asks(task.pod, task.plain):
            affinity = task.pod.spec.affinity
            sides = (affinity.pod_affinity, affinity.pod_anti_affinity) if affinity else ()
            asking = self._encode((sides, task.pod.spec.topology_spread_constraints))
        labels = task.pod.metadata.labels
        key = KinKey(task.plain.id, asking, task.namespace, tuple([labels.get(name) for name in self._keys]))
        kin = self._groups.kins.get(key) or self._new_kin(key, task)
        task.kin = kin
        task.base = task.shape = kin.shape
        kin.tasks[task.uid] = task
        load = LOADS[task.status]
        if load and task.node:
            _count(kin.everyone, "", task.node)
            if load is not Load.RELEASES:
                _count(kin.living, "", task.node)

    def _new_kin(self, key: KinKey, task: TaskInfo) -> Kin:
        labels = {name: value for name, value in zip(self._keys, key.labels, strict=True) if value is not None}
        terms = resolve(task.pod, task.plain, key.namespace, labels, self._labels_of) if key.asks else None
        kin = Kin(key, task.plain, labels, terms)
        self._groups.add_kin(kin)
        if terms is not None:
            self._ask(kin, terms)
        kin.recount()
        self._reshape(kin)
        return kin

    def _ask(self, kin: Kin, terms: PodTerms) -> None:
        """Count from now on what a new kin's terms ask for."""
        self._asking += 1
        self.version += 1
        self.topology_keys.update((term.topology_key, None) for term in terms.affinity)
        self.topology_keys.update((constraint.topology_key, None) for constraint in terms.spread)
        for term in terms.affinity:
            if term.role is not TermRole.REQUIRED_AFFINITY:
                self._used(self._group((term.topic,)), terminating=True)
            topic = self._group((term.topic,))
            topic.users += 1
            topic.topics += 1
            if topic.topics == 1:
                self._unshaped.update(topic.kins)
        if terms.required_near:
            self._used(self._group(terms.required_near), terminating=True)
        for constraint in terms.spread:
            if constraint.selector is not None:
                self._used(self._group((constraint.selector,)), terminating=False)
        for carried in terms.carried:
            self._carriers[carried] = self._carriers.get(carried, 0) + 1
            kin.carrying.append(self._carried.setdefault(carried.topic, {}).setdefault(carried, PodTally()))

    def _used(self, group: Group, *, terminating: bool) -> None:
        group.users += 1
        self._tally(group, terminating=terminating)

    def _group(self, selectors: Selectors) -> Group:
        return self._groups.all.get(selectors) or self._groups.add_group(selectors)

    def _tally(self, group: Group, *, terminating: bool) -> PodTally:
        """A count of a group, made when it is new."""
        known = group.everyone if terminating else group.living
        if known is not None:
            return known
        tally = PodTally()
        if terminating:
            group.everyone = tally
        else:
            group.living = tally
        for kin in group.kins.values():
            kin.recount()
            for task in kin.tasks.values():
                load = LOADS[task.status]
                if load and task.node and (task.uid not in self._gone if terminating else load is not Load.RELEASES):
                    tally.add(task.node, 1)
        return tally

    def _reshape(self, kin: Kin) -> None:
        """Give a kin's tasks the shape that says what they ask, and what others ask of them."""
        if kin.key not in self._groups.kins:
            return
        matched = [selectors[0] for selectors, group in kin.groups.items() if group.topics]
        old = kin.shape
        kin.shape = self._shapes.concerned(kin.plain, kin.terms, matched)
        self._shapes.part(old)
        if kin.shape is not old:
            for task in kin.tasks.values():
                task.base = task.shape = kin.shape

    # Letting go.

    def _bring_back(self, task: TaskInfo) -> None:
        del self._gone[task.uid]
        if task.kin is not None and LOADS[task.status] and task.node:
            _count(task.kin.everyone, "", task.node)

    def _retire(self) -> None:
        """Forget kins without tasks, what they asked for, and what plugins ask for no longer."""
        for kin in self._idle.values():
            if not kin.tasks and self._groups.kins.get(kin.key) is kin:
                self._drop(kin)
        self._idle.clear()
        for group in list(self._asked.values()):
            if group.asked < self._sessions - 1:
                del self._asked[group.selectors]
                self._release(group)
        if not (self._asking or self._asked or any(asks(task.pod, task.plain) for task in self._fresh.values())):
            self._start_over()
            for task in self._tasks.values():
                task.base = task.shape = task.plain
            self._fresh.clear()
            self._keys = ()
            self.active = False

    def _drop(self, kin: Kin) -> None:
        self._groups.drop_kin(kin)
        self._shapes.part(kin.shape)
        if kin.terms is None:
            return
        self._asking -= 1
        self.version += 1
        for term in kin.terms.affinity:
            topic = self._groups.all[term.topic,]
            topic.users -= 1 if term.role is TermRole.REQUIRED_AFFINITY else 2
            topic.topics -= 1
            if not topic.topics:
                self._unshaped.update(topic.kins)
            self._release(topic)
        if near := kin.terms.required_near:
            self._unused(near)
        for constraint in kin.terms.spread:
            if constraint.selector is not None:
                self._unused((constraint.selector,))
        for carried in kin.terms.carried:
            self._carriers[carried] -= 1
            if not self._carriers[carried]:
                del self._carriers[carried]
                del self._carried[carried.topic][carried]
                if not self._carried[carried.topic]:
                    del self._carried[carried.topic]

    def _unused(self, selectors: Selectors) -> None:
        group = self._groups.all[selectors]
        group.users -= 1
        self._release(group)

    def _release(self, group: Group) -> None:
        """Forget a group that nobody uses."""
        if not group.users and group.selectors not in self._asked:
            self._groups.drop_group(group)

    def _labels_of(self, namespace: str) -> Labels:
        labels = self._seen[namespace] = self.namespaces(namespace)
        return labels


def _count(tallies: Iterable[PodTally], old: str, new: str) -> None:
    """A pod goes from one node to another; "" is none."""
    if old != new:
        for tally in tallies:
            if old:
                tally.add(old, -1)
            if new:
                tally.add(new, 1)
