"""Label classes: sets of pods that no selector distinguishes, and counts of pods by node.

A class has one namespace, one shape, one set of terms, and one value of each label that any selector reads. A selector
is therefore evaluated once per class.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from volcanoio.engine.scheduling.podindex.terms import LabelsOf, all_select
from volcanoio.framework.scheduling.podterms import PodTerms, Selectors
from volcanoio.framework.scheduling.views import Shape, Task

MAX_CHANGES_KEPT = 1024
"""Changes kept at most; a reader further behind reads `by_node`."""


class NodeCountTable:
    """Counts of pods by node, with their latest changes. Implements `podterms.NodeCounts`."""

    __slots__ = ("_changes", "_dropped", "by_node")

    def __init__(self) -> None:
        self.by_node: dict[str, int] = {}
        """Number of pods by node name, also for unknown nodes; nodes without pods are omitted."""
        self._changes: list[tuple[str, int]] = []
        """The latest changes, each a node and 1 or -1."""
        self._dropped = 0
        """Number of earlier changes."""

    @property
    def version(self) -> int:
        """Number of changes, one for each pod."""
        return self._dropped + len(self._changes)

    def since(self, version: int) -> Sequence[tuple[str, int]] | None:
        """Return the changes after a version, each a node and 1 or -1; None when the version is too old."""
        start = version - self._dropped
        return self._changes[start:] if start >= 0 else None

    def add(self, node: str, amount: int) -> None:
        """Add to the number of pods on a node."""
        if count := self.by_node.get(node, 0) + amount:
            self.by_node[node] = count
        else:
            del self.by_node[node]
        if len(changes := self._changes) >= MAX_CHANGES_KEPT:
            self._dropped += len(changes)
            changes.clear()
        changes.append((node, amount))


Label: TypeAlias = tuple[str, str]


class LabelClassKey(NamedTuple):
    """Key of a label class: shape id, encoded terms, namespace and the values of the label keys that count."""

    shape: int
    encoded_terms: bytes
    namespace: str
    labels: tuple[str | None, ...]


class LabelClass:
    """Pods that no selector distinguishes.

    `groups` are the selectors that match them, `carried_counts` the counts of their own terms and ports. `node_counts`
    are all counts they belong to, `active_node_counts` those without terminating pods.
    """

    __slots__ = (
        "active_node_counts",
        "carried_counts",
        "groups",
        "key",
        "labels",
        "node_counts",
        "shape",
        "spec_shape",
        "tasks",
        "terms",
    )

    def __init__(
        self, key: LabelClassKey, spec_shape: Shape, labels: Mapping[str, str], terms: PodTerms | None
    ) -> None:
        self.key = key
        self.spec_shape = spec_shape
        self.shape = spec_shape
        self.labels = labels
        self.terms = terms
        self.tasks: dict[str, Task] = {}
        self.groups: dict[Selectors, SelectorGroup] = {}
        self.carried_counts: list[NodeCountTable] = []
        self.node_counts: tuple[NodeCountTable, ...] = ()
        self.active_node_counts: tuple[NodeCountTable, ...] = ()

    def update_counts(self) -> None:
        """Set the counts that the class belongs to."""
        groups = self.groups.values()
        self.node_counts = (
            *self.carried_counts,
            *(group.node_counts for group in groups if group.node_counts is not None),
        )
        self.active_node_counts = tuple(
            group.active_node_counts for group in groups if group.active_node_counts is not None
        )


class SelectorGroup:
    """Pods that all of some selectors match; counted while there are users.

    `topic_users` is the number of label classes with a term about this selector, `last_requested` the last session in
    which a plugin requested the group.
    """

    __slots__ = ("active_node_counts", "classes", "last_requested", "node_counts", "selectors", "topic_users", "users")

    def __init__(self, selectors: Selectors) -> None:
        self.selectors = selectors
        self.node_counts: NodeCountTable | None = None
        self.active_node_counts: NodeCountTable | None = None
        self.users = 0
        self.topic_users = 0
        self.last_requested = -1
        self.classes: dict[LabelClassKey, LabelClass] = {}


class LabelClasses:
    """All groups and label classes, and which classes belong to which groups. Both are indexed by a required label."""

    def __init__(self, labels_of: LabelsOf) -> None:
        self.groups: dict[Selectors, SelectorGroup] = {}
        self.classes: dict[LabelClassKey, LabelClass] = {}
        self._labels_of = labels_of
        self._groups_by_label: dict[Label, dict[Selectors, SelectorGroup]] = {}
        self._groups_without_label: dict[Selectors, SelectorGroup] = {}
        self._classes_by_label: dict[Label, dict[LabelClassKey, LabelClass]] = {}

    def add_group(self, selectors: Selectors) -> SelectorGroup:
        """Add a group with all label classes that belong to it."""
        group = self.groups[selectors] = SelectorGroup(selectors)
        if (labels := _required_labels(selectors)) is None:
            self._groups_without_label[selectors] = group
            candidates: Iterable[LabelClass] = self.classes.values()
        else:
            for label in labels:
                self._groups_by_label.setdefault(label, {})[selectors] = group
            candidates = [
                label_class for label in labels for label_class in self._classes_by_label.get(label, {}).values()
            ]
        for label_class in candidates:
            self._join(label_class, group)
        return group

    def drop_group(self, group: SelectorGroup) -> None:
        """Remove a group and its counts from its label classes."""
        del self.groups[group.selectors]
        if (labels := _required_labels(group.selectors)) is None:
            del self._groups_without_label[group.selectors]
        for label in labels or ():
            indexed = self._groups_by_label[label]
            del indexed[group.selectors]
            if not indexed:
                del self._groups_by_label[label]
        for label_class in group.classes.values():
            del label_class.groups[group.selectors]
            label_class.update_counts()

    def add_class(self, label_class: LabelClass) -> None:
        """Add a label class to all groups it belongs to."""
        self.classes[label_class.key] = label_class
        for label in label_class.labels.items():
            self._classes_by_label.setdefault(label, {})[label_class.key] = label_class
            for group in self._groups_by_label.get(label, {}).values():
                self._join(label_class, group)
        for group in self._groups_without_label.values():
            self._join(label_class, group)

    def drop_class(self, label_class: LabelClass) -> None:
        """Remove a label class without pods."""
        del self.classes[label_class.key]
        for label in label_class.labels.items():
            indexed = self._classes_by_label[label]
            del indexed[label_class.key]
            if not indexed:
                del self._classes_by_label[label]
        for group in label_class.groups.values():
            del group.classes[label_class.key]

    def _join(self, label_class: LabelClass, group: SelectorGroup) -> None:
        """Add a label class to a group if the selectors match it."""
        if group.selectors not in label_class.groups and all_select(
            group.selectors, label_class.key.namespace, label_class.labels, self._labels_of
        ):
            label_class.groups[group.selectors] = group
            group.classes[label_class.key] = label_class


def _required_labels(selectors: Selectors) -> list[Label] | None:
    """Return labels of which every selected pod has one, None where the selectors require none."""
    for selector in selectors:
        for requirement in selector.labels or ():
            if requirement.operator == "In":
                return [(requirement.key, value) for value in dict.fromkeys(requirement.values)]
    return None
