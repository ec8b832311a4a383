"""The DaemonSet controller: one pod on each eligible node (Kubernetes: pkg/controller/daemon)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from volcanoio.framework.effects import Record
from volcanoio.framework.events import Change, Observed
from volcanoio.framework.objects import Objects
from volcanoio.framework.reconciler import NO_CHANGES, Plan, ReconcileView, Stage, Write, in_slow_start
from volcanoio.localcluster.controllers import controller_revisions
from volcanoio.localcluster.controllers.contract import BURST, ClusterController, creating, deleting
from volcanoio.localcluster.controllers.objects import (
    CONTROLLER_REVISION,
    DAEMON_SET,
    ControllerRevision,
    Workload,
    count,
    scaled,
)
from volcanoio.localcluster.controllers.ownership import Candidates, affected_keys, claim, status_stages
from volcanoio.localcluster.controllers.pods import (
    PodMetadata,
    active,
    available_at,
    generated,
    pod_of,
    ready,
    terminating,
)
from volcanoio.model.base import Manifest
from volcanoio.model.core import Node, Pod, PodSpec
from volcanoio.model.kinds import NODE, POD, object_reference
from volcanoio.model.selectors import NAME_FIELD, NO_EXECUTE, NO_SCHEDULE, first_untolerated, matches_required

_TOLERATED = (
    ("node.kubernetes.io/not-ready", NO_EXECUTE),
    ("node.kubernetes.io/unreachable", NO_EXECUTE),
    ("node.kubernetes.io/disk-pressure", NO_SCHEDULE),
    ("node.kubernetes.io/memory-pressure", NO_SCHEDULE),
    ("node.kubernetes.io/pid-pressure", NO_SCHEDULE),
    ("node.kubernetes.io/unschedulable", NO_SCHEDULE),
)
_HOST_NETWORK = ("node.kubernetes.io/network-unavailable", NO_SCHEDULE)
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def placement(template: Mapping[str, Any]) -> PodSpec:
    """Return the part of a daemon's pod spec that decides on which nodes its pods may run.

    Includes the tolerations of all daemon pods.
    """
    spec = template.get("spec") or {}
    given = {key: spec[key] for key in ("nodeName", "nodeSelector", "affinity") if spec.get(key) is not None}
    tolerations = [*(spec.get("tolerations") or ()), *tolerated(spec)]
    return msgspec.convert({**given, "tolerations": tolerations}, PodSpec)


def fits_node(spec: PodSpec, node: Node) -> tuple[bool, bool]:
    """Return whether a pod of this placement should run on the node, and whether an existing one may stay."""
    name, taints = node.metadata.name, node.spec.taints
    if spec.node_name not in ("", name) or not matches_required(spec, name, node.metadata.labels):
        return False, False
    if first_untolerated(taints, spec.tolerations) is None:
        return True, True
    return False, first_untolerated(taints, spec.tolerations, (NO_EXECUTE,)) is None


def tolerated(spec: Mapping[str, Any]) -> list[Manifest]:
    """Return the tolerations that a daemon's pods have besides their own."""
    wanted = [*_TOLERATED, *((_HOST_NETWORK,) if spec.get("hostNetwork") else ())]
    return [{"key": key, "operator": "Exists", "effect": effect} for key, effect in wanted]


def pinned_to(spec: Mapping[str, Any], node: str) -> Manifest:
    """Return the spec of a pod that goes to that node and nowhere else."""
    field = {"key": NAME_FIELD, "operator": "In", "values": [node]}
    affinity = dict(spec.get("affinity") or {})
    around = dict(affinity.get("nodeAffinity") or {})
    terms = (around.get(_REQUIRED) or {}).get("nodeSelectorTerms") or [{}]
    around[_REQUIRED] = {"nodeSelectorTerms": [{**term, "matchFields": [field]} for term in terms]}
    affinity["nodeAffinity"] = around
    known = spec.get("tolerations") or []
    more = [one for one in tolerated(spec) if one not in known]
    return {**spec, "affinity": affinity, "tolerations": [*known, *more]}


def node_of(pod: Pod) -> str:
    """Return the node a pod is on, or is tied to."""
    if pod.spec.node_name:
        return pod.spec.node_name
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
    for term in required.node_selector_terms if required is not None else ():
        for field in term.match_fields:
            if (field.key, field.operator, len(field.values)) == (NAME_FIELD, "In", 1):
                return field.values[0]
    return ""


_HASH, _GENERATION = "controller-revision-hash", "pod-template-generation"
_TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"


class DaemonSetController(ClusterController):
    """Controller that runs one pod on each eligible node."""

    name = "daemonset-controller"
    primary = DAEMON_SET
    reads = (POD, NODE, CONTROLLER_REVISION)

    def keys(self, event: Observed, objects: Objects) -> Iterable[str]:
        """Return the DaemonSet; for a pod or revision its owner or possible owners.

        For a changed node all.
        """
        obj = event.obj
        if event.resource == DAEMON_SET.resource:
            return (obj.metadata.key,)
        if isinstance(obj, Node):
            before = event.previous
            same = isinstance(before, Node) and event.change is Change.CHANGED and (
                before.metadata.labels == obj.metadata.labels and before.spec == obj.spec
            )  # fmt: skip
            return () if same else sorted(objects.by_key(DAEMON_SET))
        sets = objects.namespace(DAEMON_SET, obj.metadata.namespace, Workload)
        return affected_keys(DAEMON_SET, sets, obj, event.previous) if sets else ()

    def reconcile(self, key: str, view: ReconcileView) -> Plan:
        """Number the template, create, delete and replace pods, and update the status."""
        owner = view.objects.get(DAEMON_SET, key, Workload)
        if owner is None:
            return NO_CHANGES
        meta, objects = owner.metadata, view.objects
        pods, claims = claim(owner, DAEMON_SET, Candidates.of(objects, owner, POD, Pod))
        if claims and not view.is_backing_off:
            return Plan((tuple(claims),))
        revisions = objects.controlled(CONTROLLER_REVISION, meta.uid, ControllerRevision)
        newest = controller_revisions.current_of(owner, revisions)
        if newest is None or newest is not controller_revisions.in_order(revisions)[-1]:
            number = controller_revisions.next_number(revisions)
            if view.is_backing_off:
                return NO_CHANGES
            write = (
                controller_revisions.creation(
                    DAEMON_SET, owner, number, count(owner.status.get("collisionCount")), _HASH
                )
                if newest is None
                else controller_revisions.renumbering(newest, number)
            )
            return Plan(((write,),))
        look = _Reconciliation(owner, pods, newest.metadata.labels.get(_HASH, ""), view)
        stages: tuple[Stage, ...] = ()
        if meta.deletion_timestamp is None and not view.is_backing_off:
            stages = look.work()
            if not stages:
                limit = count(owner.spec.get("revisionHistoryLimit"), 10)
                used = {one.metadata.labels.get(_HASH, "") for one in pods} | {look.hash}
                live = {one.metadata.name for one in revisions if one.metadata.labels.get(_HASH, "") in used}
                writes = tuple(controller_revisions.surplus(revisions, frozenset(live), limit))
                stages = (writes,) if writes else ()
        status = status_stages(DAEMON_SET, owner, look.status())
        return Plan((*stages, *status), tuple(look.events), requeue_at=look.again)


class _Reconciliation:
    """One reconciliation of a DaemonSet: its pods by node."""

    def __init__(self, owner: Workload, pods: Sequence[Pod], hash_: str, view: ReconcileView) -> None:
        self.owner, self.view, self.hash = owner, view, hash_
        self.events: list[Record] = []
        self._min_ready = float(owner.spec.get("minReadySeconds") or 0)
        self.template = owner.spec.get("template") or {}
        spec = placement(self.template)
        self.nodes = {node.metadata.name: fits_node(spec, node) for node in view.objects.all(NODE, Node)}
        self.by_node: dict[str, list[Pod]] = {}
        for pod in pods:
            self.by_node.setdefault(node_of(pod), []).append(pod)
        self.again = min(
            (at for pod in pods if (at := available_at(pod, self._min_ready)) is not None and at > view.now),
            default=None,
        )

    def work(self) -> tuple[Stage, ...]:
        """Return the stages that create and delete pods.

        If there are none, those that replace old pods.
        """
        make: list[str] = []
        delete: list[Pod] = []
        for name, (wanted, may_stay) in self.nodes.items():
            there = self.by_node.get(name, [])
            living = [pod for pod in there if active(pod)]
            delete += self._ended(name, there)
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

    def _ended(self, node: str, pods: Sequence[Pod]) -> list[Pod]:
        """Return the pods of a node that ended; records an Event for each failed one."""
        ended = [pod for pod in pods if pod.status.phase in ("Failed", "Succeeded") and not terminating(pod)]
        for pod in ended:
            if pod.status.phase == "Failed":
                text = f"Found failed daemon pod {pod.metadata.key} on node {node}, will try to kill it"
                self._record("Warning", "FailedDaemonPod", text)
        return ended

    def _outdated(self) -> list[Pod]:
        """Return the old pods to replace now.

        Unavailable ones at once, others as far as the strategy allows.
        """
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
        """Return the desired status."""
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
        name = generated(owner.metadata.name, self.view.suffix())
        generation = owner.metadata.annotations.get(_TEMPLATE_GENERATION, "1")
        labels = {_HASH: self.hash, _GENERATION: generation}
        manifest = pod_of(self.template, DAEMON_SET, owner, name, PodMetadata(labels=labels))
        manifest["spec"] = pinned_to(manifest["spec"], node)
        return creating(DAEMON_SET, owner, manifest)

    def _record(self, type_: str, reason: str, message: str) -> None:
        regarding = object_reference(DAEMON_SET, self.owner)
        self.events.append(Record(regarding=regarding, type=type_, reason=reason, message=message))
