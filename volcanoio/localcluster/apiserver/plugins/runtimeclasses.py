"""RuntimeClasses: what a pod that names one gets from it (Kubernetes: plugin/pkg/admission/runtimeclass)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from volcanoio.localcluster.apiserver import errors
from volcanoio.localcluster.apiserver.objects import Ref
from volcanoio.model.base import Manifest

if TYPE_CHECKING:
    from volcanoio.localcluster.apiserver.core import Core


def use_runtime_class(pod: Manifest, namespace: str, core: Core) -> None:
    """Take over the overhead, node selector and tolerations of the pod's class; raises ApiError 403."""
    del namespace
    spec = pod["spec"]
    name = spec.get("runtimeClassName")
    if not name:
        if spec.get("overhead"):
            raise _refusal(pod, core, "Pod Overhead set without corresponding RuntimeClass defined Overhead")
        return
    stored = core.store.get(Ref("runtimeclasses.node.k8s.io", "", str(name)))
    if stored is None:
        raise _refusal(pod, core, f'RuntimeClass "{name}" not found')
    runtime_class = stored.decode()
    overhead = (runtime_class.get("overhead") or {}).get("podFixed")
    if spec.get("overhead") and spec["overhead"] != overhead:
        raise _refusal(pod, core, "Pod's Overhead doesn't match RuntimeClass's defined Overhead")
    if overhead:
        spec["overhead"] = overhead
    scheduling = runtime_class.get("scheduling") or {}
    wanted, stated = scheduling.get("nodeSelector") or {}, spec.get("nodeSelector") or {}
    for key, value in wanted.items():
        if stated.get(key, value) != value:
            text = f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; pod.spec.nodeSelector[{key}] = "
            raise _refusal(pod, core, text + str(stated[key]))
    if wanted:
        spec["nodeSelector"] = {**stated, **wanted}
    known = spec.get("tolerations") or []
    if more := [one for one in scheduling.get("tolerations") or () if one not in known]:
        spec["tolerations"] = [*known, *more]


def _refusal(pod: Manifest, core: Core, why: str) -> errors.ApiError:
    metadata = pod["metadata"]
    name = str(metadata.get("name") or metadata.get("generateName") or "")
    return errors.forbidden(core.registry.builtin("pods"), name, f"pod rejected: {why}")
