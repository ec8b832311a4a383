"""The controller of DaemonSets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from volcanoio.framework.effects import Record
from volcanoio.framework.events import Change, Observed
from volcanoio.localcluster.controllers import history
from volcanoio.localcluster.controllers.daemonsets.placing import belongs, node_of, tied
from volcanoio.localcluster.controllers.frame.contract import (
    BURST,
    NOTHING,
    Defaults,
    Plan,
    Stage,
    View,
    Write,
    in_slow_start,
)
from volcanoio.localcluster.controllers.frame.tables import Tables
from volcanoio.localcluster.controllers.kinds import (
    CONTROLLER_REVISION,
    DAEMON_SET,
    ControllerRevision,
    Workload,
)
from volcanoio.localcluster.controllers.owners import claim, concerned, selector_of, status_stages
from volcanoio.localcluster.controllers.pods import active, available_at, generated, pod_of, ready, terminating
from volcanoio.localcluster.controllers.quantities import count, scaled
from volcanoio.localcluster.controllers.writes import creating, deleting
from volcanoio.model.base import Manifest
from volcanoio.model.core import Node, Pod
from volcanoio.model.kinds import NODE, POD
from volcanoio.model.references import object_reference

_HASH, _GENERATION = "controller-revision-hash", "pod-template-generation"
_TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"


class DaemonSetController(Defaults):
    """Keeps a pod on each node."""

    name = "daemonset-controller"
    primary = DAEMON_SET
    reads = (POD, NODE, CONTROLLER_REVISION)

    def keys(self, event: Observed, tables: Tables) -> Iterable[str]:
        """Itself; of a pod or revision whose it is or may be; of a node that changed all."""
        obj = event.obj
        if event.resource == DAEMON_SET.resource:
            return (obj.metadata.key,)
        if isinstance(obj, Node):
            before = event.previous
            same = isinstance(before, Node) and event.change is Change.CHANGED and (
                before.metadata.labels == obj.metadata.labels and before.spec == obj.spec
            )  # fmt: skip
            return () if same else sorted(tables.table(DAEMON_SET).objects)
        sets = tables.namespace(DAEMON_SET, obj.metadata.namespace, Workload)
        return concerned(DAEMON_SET, sets, obj, event.previous) if sets else ()

    def reconcile(self, key: str, view: View) -> Plan:
        """Number the template, then make and delete pods, then replace old ones, then tell in the status."""
        owner = view.tables.get(DAEMON_SET, key, Workload)
        if owner is None:
            return NOTHING
        meta, tables = owner.metadata, view.tables
        owned = tables.controlled(POD, meta.uid, Pod)
        pods, claims = claim(owner, DAEMON_SET, selector_of(owner), POD, owned, tables.loose(POD, meta.namespace, Pod))
        if claims and not view.held:
            return Plan((tuple(claims),))
        revisions = tables.controlled(CONTROLLER_REVISION, meta.uid, ControllerRevision)
        newest = history.current_of(owner, revisions)
        if newest is None or newest is not history.in_order(revisions)[-1]:
            number = history.next_number(revisions)
            if view.held:
                return NOTHING
            write = (
                history.creation(DAEMON_SET, owner, number, count(owner.status.get("collisionCount")), _HASH)
                if newest is None
                else history.renumbering(newest, number)
            )
            return Plan(((write,),))
        look = _Look(owner, pods, newest.metadata.labels.get(_HASH, ""), view)
        stages: tuple[Stage, ...] = ()
        if meta.deletion_timestamp is None and not view.held:
            stages = look.work()
            if not stages:
                limit = count(owner.spec.get("revisionHistoryLimit"), 10)
                used = {one.metadata.labels.get(_HASH, "") for one in pods} | {look.hash}
                live = {one.metadata.name for one in revisions if one.metadata.labels.get(_HASH, "") in used}
                writes = tuple(history.surplus(revisions, frozenset(live), limit))
                stages = (writes,) if writes else ()
        status = status_stages(DAEMON_SET, owner, look.status())
        return Plan((*stages, *status), tuple(look.events), again=look.again)


class _Look:
    """One look at a DaemonSet: its pods by node."""

    def __init__(self, owner: Workload, pods: Sequence[Pod], hash_: str, view: View) -> None:
        self.owner, self.view, self.hash = owner, view, hash_
        self.events: list[Record] = []
        self._min_ready = float(owner.spec.get("minReadySeconds") or 0)
        self.template = owner.spec.get("template") or {}
        self.nodes = {node.metadata.name: belongs(self.template, node) for node in view.tables.all(NODE, Node)}
        self.by_node: dict[str, list[Pod]] = {}
        for pod in pods:
            self.by_node.setdefault(node_of(pod), []).append(pod)
        self.again = min(
            (at for pod in pods if (at := available_at(pod, self._min_ready)) is not None and at > view.now),
            default=None,
        )

    def work(self) -> tuple[Stage, ...]:
        """Pods to make and delete; when there are none, old ones to replace."""
        make: list[str] = []
        delete: list[Pod] = []
        for name, (wanted, may_stay) in self.nodes.items():
            there = self.by_node.get(name, [])
            living = [pod for pod in there if active(pod)]
            for pod in there:
                if pod.status.phase in ("Failed", "Succeeded") and not terminating(pod):
                    delete.append(pod)
                    if pod.status.phase == "Failed":
                        text = f"Found failed daemon pod {pod.metadata.key} on node {name}, will try to kill it"
                        self._say("Warning", "FailedDaemonPod", text)
            if wanted and not there:
                make.append(name)
            elif not wanted and not may_stay:
                delete += living
            elif len(living) > 1:
                delete += sorted(living, key=lambda pod: (not ready(pod), pod.metadata.creation_timestamp or ""))[1:]
        for name, there in self.by_node.items():
            if name not in self.nodes:
                delete += [pod for pod in there if active(pod)]
        if not make and not delete:
            delete = self._outdated()
        deletions = tuple(deleting(DAEMON_SET, self.owner, pod) for pod in delete[:BURST])
        made = in_slow_start(self._creation(name) for name in make[:BURST])
        return ((deletions,) if deletions else ()) + made

    def _outdated(self) -> list[Pod]:
        """Old pods that may go now: those that serve nobody at once, others as far as the strategy lets them."""
        strategy = self.owner.spec.get("updateStrategy") or {}
        if strategy.get("type", "RollingUpdate") != "RollingUpdate":
            return []
        wanted = [name for name, (runs, _) in self.nodes.items() if runs]
        allowed = scaled((strategy.get("rollingUpdate") or {}).get("maxUnavailable", 1), len(wanted), up=True)
        idle: list[Pod] = []
        serving: list[Pod] = []
        unavailable = 0
        for name in wanted:
            living = [pod for pod in self.by_node.get(name, []) if active(pod)]
            if not any(map(self._is_available, living)):
                unavailable += 1
            for pod in living:
                if not self._is_new(pod):
                    (serving if self._is_available(pod) else idle).append(pod)
        return idle + serving[: max(allowed - unavailable, 0)]

    def _is_new(self, pod: Pod) -> bool:
        return pod.metadata.labels.get(_HASH) == self.hash

    def _is_available(self, pod: Pod) -> bool:
        moment = available_at(pod, self._min_ready)
        return moment is not None and moment <= self.view.now

    def status(self) -> Manifest:
        """The status as it should be."""
        wanted = {name for name, (runs, _) in self.nodes.items() if runs}
        current = misplaced = good = available = updated = 0
        for name, there in self.by_node.items():
            if not there or name not in self.nodes:
                continue
            if name not in wanted:
                misplaced += 1
                continue
            current += 1
            oldest = min(there, key=lambda pod: (not ready(pod), pod.metadata.creation_timestamp or ""))
            if ready(oldest):
                good += 1
                available += self._is_available(oldest)
            updated += self._is_new(oldest)
        counts = {
            "updatedNumberScheduled": updated,
            "numberAvailable": available,
            "numberUnavailable": len(wanted) - available,
            "observedGeneration": self.owner.metadata.generation,
        }
        status: Manifest = {
            "currentNumberScheduled": current,
            "numberMisscheduled": misplaced,
            "desiredNumberScheduled": len(wanted),
            "numberReady": good,
            **{name: number for name, number in counts.items() if number},
        }
        if self.owner.status.get("collisionCount") is not None:
            status["collisionCount"] = self.owner.status["collisionCount"]
        return status

    def _creation(self, node: str) -> Write:
        owner = self.owner
        name, prefix = generated(owner.metadata.name, self.view.suffix())
        generation = owner.metadata.annotations.get(_TEMPLATE_GENERATION, "1")
        labels = {_HASH: self.hash, _GENERATION: generation}
        manifest = pod_of(self.template, DAEMON_SET, owner, name, generate_name=prefix, labels=labels)
        manifest["spec"] = tied(manifest["spec"], node)
        return creating(DAEMON_SET, owner, manifest)

    def _say(self, type_: str, reason: str, message: str) -> None:
        regarding = object_reference(DAEMON_SET, self.owner)
        self.events.append(Record(regarding=regarding, type=type_, reason=reason, message=message))
