"""Protection of native PodGroups: one that is deleted stays until no unfinished pod is in it.

Kubernetes: pkg/controller/scheduling/podgroupprotection.
"""

from __future__ import annotations

from collections.abc import Iterable

from volcanoio.framework.events import Change, Observed
from volcanoio.framework.objects import Objects
from volcanoio.framework.reconciler import NO_CHANGES, Plan, ReconcileView
from volcanoio.localcluster.controllers.contract import ClusterController, patching
from volcanoio.localcluster.controllers.pods import finished
from volcanoio.model.core import Pod
from volcanoio.model.kinds import NATIVE_POD_GROUP, POD
from volcanoio.model.workloads import PROTECTION, NativePodGroup


class GroupProtectionController(ClusterController):
    """Controller that removes the finalizer of deleted PodGroups that no unfinished pod is in."""

    name = "podgroup-protection-controller"
    primary = NATIVE_POD_GROUP
    reads = (POD,)

    def wakes(self, event: Observed) -> bool:
        """Return whether a protected PodGroup is deleted."""
        return event.change is not Change.GONE and _awaits_removal(event.object)

    def keys(self, event: Observed, objects: Objects) -> Iterable[str]:
        """Return the PodGroup, or that of a pod that has ended."""
        obj = event.obj
        if not isinstance(obj, Pod):
            return (obj.metadata.key,)
        is_over = event.change is Change.GONE or finished(obj)
        key = _group_key(obj)
        return (key,) if is_over and _awaits_removal(objects.get(NATIVE_POD_GROUP, key, NativePodGroup)) else ()

    def reconcile(self, key: str, view: ReconcileView) -> Plan:
        """Remove the finalizer of a deleted PodGroup that is no longer in use."""
        group = view.objects.get(NATIVE_POD_GROUP, key, NativePodGroup)
        if view.is_backing_off or group is None or not _awaits_removal(group):
            return NO_CHANGES
        pods = view.objects.namespace(POD, group.metadata.namespace, Pod)
        if any(_group_key(pod) == key and not finished(pod) for pod in pods):
            return NO_CHANGES
        kept = [one for one in group.metadata.finalizers if one != PROTECTION]
        return Plan(((patching(NATIVE_POD_GROUP, group, {"metadata": {"finalizers": kept}}),),))


def _awaits_removal(group: object) -> bool:
    """Return whether a PodGroup is deleted and has the finalizer."""
    if not isinstance(group, NativePodGroup):
        return False
    return group.metadata.deletion_timestamp is not None and PROTECTION in group.metadata.finalizers


def _group_key(pod: Pod) -> str:
    """Return `namespace/name` of a pod's PodGroup, "" if it has none."""
    group = pod.spec.scheduling_group
    return f"{pod.metadata.namespace}/{group.pod_group_name}" if group is not None else ""
