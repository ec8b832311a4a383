"""Index of pods: counts by node for pod affinity, topology spread and host ports.

Only what terms of pods, or plugins, select is counted; without any, `is_active` is false and nothing is kept. New pods
and new terms are added step by step when a session opens (`refresh`); later changes, including undone ones, arrive
through the ledger at once.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from typing import cast

import msgspec

from volcanoio.engine.scheduling.cluster.jobs import TaskInfo
from volcanoio.engine.scheduling.cluster.loads import LOADS, Load
from volcanoio.engine.scheduling.cluster.shapes import Shapes
from volcanoio.engine.scheduling.podindex.label_classes import (
    LabelClass,
    LabelClasses,
    LabelClassKey,
    NodeCountTable,
    SelectorGroup,
)
from volcanoio.engine.scheduling.podindex.terms import Labels, has_terms, label_keys, resolve, selector_keys
from volcanoio.framework.scheduling.podterms import Carried, PodTerms, Selectors, TermRole
from volcanoio.framework.scheduling.views import TaskStatus

TASKS_PER_STEP = 256
"""Tasks processed before other work may run."""
_NO_LABELS: Labels = {}


class PodIndex:
    """Index of pods. Implements `podterms.PodCounts`."""

    def __init__(self, shapes: Shapes, tasks: Mapping[str, TaskInfo]) -> None:
        self.is_active = False
        self.version = 0
        """Changes when different sets of pods are counted; a count table is valid for one version."""
        self.namespaces: Callable[[str], Labels] = lambda _: _NO_LABELS
        """Function that returns the labels of a namespace."""
        self._shapes = shapes
        self._tasks = tasks
        self._keys: tuple[str, ...] = ()
        self._classes = LabelClasses(self._labels_of)
        self._counts_by_topic: dict[Hashable, dict[Carried, NodeCountTable]] = {}
        self._carrying_classes: dict[Carried, int] = {}
        """Number of label classes that carry a term or port."""
        self._unclassified: dict[str, TaskInfo] = {}
        self._to_reshape: dict[LabelClassKey, LabelClass] = {}
        """Label classes that may need another shape."""
        self._empty_classes: dict[LabelClassKey, LabelClass] = {}
        """Label classes that may have no task any more."""
        self._evicted: dict[str, TaskInfo] = {}
        """Tasks that the session evicted."""
        self._classes_with_terms = 0
        self._plugin_groups: dict[Selectors, SelectorGroup] = {}
        """Groups requested by plugins."""
        self._session_number = 0
        self._namespace_labels: dict[str, Labels] = {}
        """Labels of the namespaces that were read."""
        self.topology_keys: dict[str, None] = {}
        """Topology keys in pods' terms, in order of appearance."""
        self._encode = msgspec.msgpack.Encoder(order="sorted").encode

    # Called by the ledger: `add` always, the others while active.

    def add(self, task: TaskInfo) -> None:
        """Add a new task."""
        if self.is_active:
            self._unclassified[task.uid] = task
        elif has_terms(task.pod, task.spec_shape):
            self._activate()

    def remove(self, task: TaskInfo) -> None:
        """Remove a task, which still has its last status and node."""
        self._unclassified.pop(task.uid, None)
        label_class, task.label_class = task.label_class, None
        was_evicted = self._evicted.pop(task.uid, None) is not None
        if label_class is None:
            return
        if (load := LOADS[task.status]) and task.node:
            if not was_evicted:
                _move_count(label_class.node_counts, task.node, "")
            if load is not Load.RELEASES:
                _move_count(label_class.active_node_counts, task.node, "")
        del label_class.tasks[task.uid]
        if not label_class.tasks:
            self._empty_classes[label_class.key] = label_class

    def move(self, task: TaskInfo, status: TaskStatus, node: str) -> None:
        """Count a task under another status and node, before they are set on the task."""
        label_class = task.label_class
        was_evicted = self._evicted.pop(task.uid, None) is not None
        if label_class is None or not (label_class.node_counts or label_class.active_node_counts):
            return
        before, load = LOADS[task.status], LOADS[status]
        old, new = task.node if before else "", node if load else ""
        _move_count(
            label_class.active_node_counts, "" if before is Load.RELEASES else old, "" if load is Load.RELEASES else new
        )
        _move_count(label_class.node_counts, "" if was_evicted else old, new)

    def count_assumed(self, tasks: Iterable[TaskInfo]) -> None:
        """Count Pending tasks that were assumed on nodes."""
        for task in tasks:
            label_class = task.label_class
            if label_class is not None and (label_class.node_counts or label_class.active_node_counts):
                node = task.node
                for counts in label_class.node_counts:
                    counts.add(node, 1)
                for counts in label_class.active_node_counts:
                    counts.add(node, 1)

    def count_evicted(self, task: TaskInfo) -> None:
        """Stop counting a task that the session evicts, except among pods that are not terminating."""
        if task.label_class is not None and task.node and task.uid not in self._evicted:
            self._evicted[task.uid] = task
            _move_count(task.label_class.node_counts, task.node, "")

    # Called by the session.

    def refresh(self) -> Iterator[None]:
        """Process all changes since the last session, before plugins open."""
        self._session_number += 1
        if self.is_active:
            for task in list(self._evicted.values()):  # evicted tasks that still exist count again
                self._restore_evicted(task)
            self._drop_unused()
            if any(self.namespaces(name) != labels for name, labels in self._namespace_labels.items()):
                self._reset()
            yield from self._classify_tasks()

    def classify_new(self) -> None:
        """Process tasks that were added during a session; their own terms are processed at the next `refresh`."""
        if self.is_active:
            for _ in self._classify_tasks():
                pass

    def matching(self, selectors: Selectors, *, terminating: bool = True) -> NodeCountTable:
        """Return the counts of pods that all selectors match, with or without terminating pods."""
        if (group := self._classes.groups.get(selectors)) is None:
            if not self.is_active:
                self._activate()
            self._add_label_keys(selector_keys(selectors))
            for _ in self._classify_tasks():
                pass
            group = self._group(selectors)
        self._plugin_groups[selectors] = group
        group.last_requested = self._session_number
        return self._node_counts(group, terminating=terminating)

    def carrying(self, carried: Carried) -> NodeCountTable:
        """Return the counts of pods that carry a term or port."""
        counts = self._counts_by_topic.get(carried.topic, {}).get(carried)
        return NodeCountTable() if counts is None else counts

    def carried(self, topic: Hashable) -> Collection[Carried]:
        """Return what pods carry of a topic: terms by their selector, ports by protocol and number."""
        return self._counts_by_topic.get(topic, {}).keys()

    # Adding tasks.

    def _activate(self) -> None:
        """Begin to count pods: a term or a plugin selects some."""
        self.is_active = True
        self._unclassified = dict(self._tasks)
        self.version += 1

    def _classify_tasks(self) -> Iterator[None]:
        """Add the tasks that have no label class yet to one, some at a time.

        Label keys that their terms read are added first, as new keys invalidate all label classes.
        """
        keys: dict[str, None] = {}
        for number, task in enumerate(list(self._unclassified.values()), 1):
            if has_terms(task.pod, task.spec_shape):
                keys.update(dict.fromkeys(label_keys(task.pod)))
            if not number % TASKS_PER_STEP:
                yield
        self._add_label_keys(keys)
        for number, uid in enumerate(list(self._unclassified), 1):
            self._classify(self._unclassified.pop(uid))
            if not number % TASKS_PER_STEP:
                yield
        for key in list(self._to_reshape):
            self._reshape(self._to_reshape.pop(key))

    def _add_label_keys(self, keys: Iterable[str]) -> None:
        """Add label keys that selectors read; new keys invalidate all label classes."""
        if new := set(keys).difference(self._keys):
            self._keys = (*self._keys, *sorted(new))
            if self._classes.classes:
                self._reset()

    def _reset(self) -> None:
        """Drop all label classes and counts; plugins request their groups again."""
        for label_class in self._classes.classes.values():
            self._shapes.release(label_class.shape)
        for task in self._tasks.values():
            task.label_class = None
        self._classes = LabelClasses(self._labels_of)
        for table in (
            self._counts_by_topic,
            self._carrying_classes,
            self._to_reshape,
            self._empty_classes,
            self._evicted,
            self._plugin_groups,
            self._namespace_labels,
        ):
            table.clear()
        self.topology_keys.clear()
        self._classes_with_terms = 0
        self._unclassified = dict(self._tasks)
        self.version += 1

    def _classify(self, task: TaskInfo) -> None:
        """Add a task to its label class and to the counts of the class."""
        encoded_terms = b""
        if has_terms(task.pod, task.spec_shape):
            affinity = task.pod.spec.affinity
            sides = (affinity.pod_affinity, affinity.pod_anti_affinity) if affinity else ()
            encoded_terms = self._encode((sides, task.pod.spec.topology_spread_constraints))
        labels = task.pod.metadata.labels
        key = LabelClassKey(
            task.spec_shape.id, encoded_terms, task.namespace, tuple([labels.get(name) for name in self._keys])
        )
        label_class = self._classes.classes.get(key) or self._new_class(key, task)
        task.label_class = label_class
        task.base_shape = task.shape = label_class.shape
        label_class.tasks[task.uid] = task
        if (load := LOADS[task.status]) and task.node:
            _move_count(label_class.node_counts, "", task.node)
            if load is not Load.RELEASES:
                _move_count(label_class.active_node_counts, "", task.node)

    def _new_class(self, key: LabelClassKey, task: TaskInfo) -> LabelClass:
        """Add a label class, without tasks, for tasks like this one."""
        labels = {name: value for name, value in zip(self._keys, key.labels, strict=True) if value is not None}
        terms = (
            resolve(task.pod, task.spec_shape, key.namespace, labels, self._labels_of) if key.encoded_terms else None
        )
        label_class = LabelClass(key, task.spec_shape, labels, terms)
        self._classes.add_class(label_class)
        if terms is not None:
            self._count_terms(label_class, terms)
        label_class.update_counts()
        self._reshape(label_class)
        return label_class

    def _count_terms(self, label_class: LabelClass, terms: PodTerms) -> None:
        """Start to count the pods that a new label class's terms select."""
        self._classes_with_terms += 1
        self.version += 1
        self.topology_keys.update((term.topology_key, None) for term in terms.affinity)
        self.topology_keys.update((constraint.topology_key, None) for constraint in terms.spread)
        for term in terms.affinity:
            if term.role is not TermRole.REQUIRED_AFFINITY:
                self._use(self._group((term.topic,)), terminating=True)
            topic = self._group((term.topic,))
            topic.users += 1
            topic.topic_users += 1
            if topic.topic_users == 1:
                self._to_reshape.update(topic.classes)
        if terms.required_affinity_selectors:
            self._use(self._group(terms.required_affinity_selectors), terminating=True)
        for constraint in terms.spread:
            if constraint.selector is not None:
                self._use(self._group((constraint.selector,)), terminating=False)
        for carried in terms.carried:
            self._carrying_classes[carried] = self._carrying_classes.get(carried, 0) + 1
            label_class.carried_counts.append(
                self._counts_by_topic.setdefault(carried.topic, {}).setdefault(carried, NodeCountTable())
            )

    def _use(self, group: SelectorGroup, *, terminating: bool) -> None:
        """Count a group's pods for one more user."""
        group.users += 1
        self._node_counts(group, terminating=terminating)

    def _group(self, selectors: Selectors) -> SelectorGroup:
        """Return the group of these selectors, adding it if missing."""
        return self._classes.groups.get(selectors) or self._classes.add_group(selectors)

    def _node_counts(self, group: SelectorGroup, *, terminating: bool) -> NodeCountTable:
        """Return a group's counts with or without terminating pods, counting them if no user had them before."""
        known = group.node_counts if terminating else group.active_node_counts
        if known is not None:
            return known
        counts = NodeCountTable()
        if terminating:
            group.node_counts = counts
        else:
            group.active_node_counts = counts
        for label_class in group.classes.values():
            label_class.update_counts()
            for task in label_class.tasks.values():
                load = LOADS[task.status]
                if load and task.node and (task.uid not in self._evicted if terminating else load is not Load.RELEASES):
                    counts.add(task.node, 1)
        return counts

    def _reshape(self, label_class: LabelClass) -> None:
        """Set the shape of a label class's tasks from its terms and the terms that match it."""
        if label_class.key not in self._classes.classes:
            return
        matched = [selectors[0] for selectors, group in label_class.groups.items() if group.topic_users]
        old = label_class.shape
        label_class.shape = self._shapes.with_terms(label_class.spec_shape, label_class.terms, matched)
        self._shapes.release(old)
        if label_class.shape is not old:
            for task in cast("Iterable[TaskInfo]", label_class.tasks.values()):
                task.base_shape = task.shape = label_class.shape

    # Dropping tasks and classes.

    def _restore_evicted(self, task: TaskInfo) -> None:
        """Count a task again that an earlier session evicted and that still exists."""
        del self._evicted[task.uid]
        if task.label_class is not None and LOADS[task.status] and task.node:
            _move_count(task.label_class.node_counts, "", task.node)

    def _drop_unused(self) -> None:
        """Drop label classes without tasks, their terms, and groups that plugins no longer request."""
        for label_class in self._empty_classes.values():
            if not label_class.tasks and self._classes.classes.get(label_class.key) is label_class:
                self._drop_class(label_class)
        self._empty_classes.clear()
        for group in list(self._plugin_groups.values()):
            if group.last_requested < self._session_number - 1:
                del self._plugin_groups[group.selectors]
                self._drop_group_if_unused(group)
        if not (
            self._classes_with_terms
            or self._plugin_groups
            or any(has_terms(task.pod, task.spec_shape) for task in self._unclassified.values())
        ):
            self._reset()
            for task in self._tasks.values():
                task.base_shape = task.shape = task.spec_shape
            self._unclassified.clear()
            self._keys = ()
            self.is_active = False

    def _drop_class(self, label_class: LabelClass) -> None:
        """Drop a label class without tasks, with the counts that only its terms used."""
        self._classes.drop_class(label_class)
        self._shapes.release(label_class.shape)
        if label_class.terms is None:
            return
        self._classes_with_terms -= 1
        self.version += 1
        for term in label_class.terms.affinity:
            topic = self._classes.groups[term.topic,]
            topic.users -= 1 if term.role is TermRole.REQUIRED_AFFINITY else 2  # as `_count_terms` added
            topic.topic_users -= 1
            if not topic.topic_users:
                self._to_reshape.update(topic.classes)
            self._drop_group_if_unused(topic)
        if selectors := label_class.terms.required_affinity_selectors:
            self._stop_using(selectors)
        for constraint in label_class.terms.spread:
            if constraint.selector is not None:
                self._stop_using((constraint.selector,))
        for carried in label_class.terms.carried:
            self._carrying_classes[carried] -= 1
            if not self._carrying_classes[carried]:
                del self._carrying_classes[carried]
                del self._counts_by_topic[carried.topic][carried]
                if not self._counts_by_topic[carried.topic]:
                    del self._counts_by_topic[carried.topic]

    def _stop_using(self, selectors: Selectors) -> None:
        group = self._classes.groups[selectors]
        group.users -= 1
        self._drop_group_if_unused(group)

    def _drop_group_if_unused(self, group: SelectorGroup) -> None:
        if not group.users and group.selectors not in self._plugin_groups:
            self._classes.drop_group(group)

    def _labels_of(self, namespace: str) -> Labels:
        """Return the labels of a namespace, and record them: when they change, everything is classified again."""
        labels = self._namespace_labels[namespace] = self.namespaces(namespace)
        return labels


def _move_count(tables: Iterable[NodeCountTable], old: str, new: str) -> None:
    """Move one pod from one node to another in these counts; "" is no node."""
    if old != new:
        for counts in tables:
            if old:
                counts.add(old, -1)
            if new:
                counts.add(new, 1)
