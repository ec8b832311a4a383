"""What is written before the bind of a pod with claims that wait, and what is waited for then.

Source: Kubernetes pkg/scheduler/framework/plugins/volumebinding/binder.go (bindAPIUpdate, checkBindings).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from volcanoio.framework.scheduling.sessionview import SessionView
from volcanoio.framework.scheduling.views import Task
from volcanoio.framework.scheduling_effects import PreBindStep
from volcanoio.model import kinds
from volcanoio.model.storage import BIND_COMPLETED, BOUND_BY_CONTROLLER, SELECTED_NODE, PersistentVolumeClaim
from volcanoio_plugins.scheduling.volumes.volumeplans import VolumePlans

_BOUND = {"metadata": {"annotations": {BIND_COMPLETED: True}}, "spec": {"volumeName": True}}


def steps_of(task: Task, session: SessionView, plans: VolumePlans, timeout: float) -> Sequence[PreBindStep]:
    """The steps for the claims of a task, in the order of its volumes; `timeout` in seconds for each claim."""
    return tuple(_steps(task, session, plans, timeout))


def _steps(task: Task, session: SessionView, plans: VolumePlans, timeout: float) -> Iterator[PreBindStep]:
    claims = session.objects(kinds.PVC.resource)
    for key, said in session.volumes.claims(task):
        claim = claims.get(key)
        if said.fault or not said.waits or not isinstance(claim, PersistentVolumeClaim):
            continue
        meta = claim.metadata
        patch: dict[str, object] = {}
        undo: dict[str, object] = {}
        writes = plans.writer_of(key) == task.uid
        if volume := plans.volume_of(key):
            known = session.objects(kinds.PV.resource).get(volume)
            if known is not None and not said.reserved and writes:
                reference = {
                    "apiVersion": "v1",
                    "kind": "PersistentVolumeClaim",
                    "namespace": meta.namespace,
                    "name": meta.name,
                    "uid": meta.uid,
                    "resourceVersion": meta.resource_version,
                }
                yield PreBindStep(
                    resource=kinds.PV.resource,
                    name=volume,
                    uid=known.metadata.uid,
                    resource_version=known.metadata.resource_version,
                    patch={
                        "metadata": {"annotations": {BOUND_BY_CONTROLLER: "yes"}},
                        "spec": {"claimRef": reference},
                    },
                    undo={"metadata": {"annotations": {BOUND_BY_CONTROLLER: None}}, "spec": {"claimRef": None}},
                    keeps={"status": {"phase": "Bound"}},
                )
        elif not said.selected and writes:
            patch = {"metadata": {"annotations": {SELECTED_NODE: task.node}}}
            undo = {"metadata": {"annotations": {SELECTED_NODE: None}}}
        yield PreBindStep(
            resource=kinds.PVC.resource,
            namespace=meta.namespace,
            name=meta.name,
            uid=meta.uid,
            resource_version=meta.resource_version if patch else "",
            patch=patch,
            undo=undo,
            keeps=_BOUND,
            until=_BOUND,
            holds=patch,
            timeout=timeout,
        )
