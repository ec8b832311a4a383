"""Admission of new pods: service account, default tolerations and RuntimeClass.

Kubernetes: plugin/pkg/admission/{serviceaccount,defaulttolerationseconds,runtimeclass}. The volume with the account's
token is not added: a simulated container reads nothing, and a random volume name would make no two pods of a job
alike; a runtime that runs commands asks for tokens itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from volcanoio.localcluster.apiserver.apimachinery import errors
from volcanoio.localcluster.apiserver.apimachinery.objects import Ref
from volcanoio.localcluster.apiserver.controllers.service_accounts import DEFAULT_ACCOUNT, ensure_default_account
from volcanoio.model.base import Manifest

if TYPE_CHECKING:
    from volcanoio.localcluster.apiserver.core import Core


_TOLERATION_SECONDS: Final = 300
_TOLERATED: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


def set_service_account(pod: Manifest, namespace: str, core: Core) -> None:
    """Set the service account, which must exist, and its pull secrets; raises ApiError 403.

    A controller creates the default account. A pod that is created before that would have to wait in Kubernetes; here
    the account is created at once.
    """
    spec = pod["spec"]
    name = spec.get("serviceAccountName") or spec.get("serviceAccount") or DEFAULT_ACCOUNT
    spec["serviceAccountName"] = spec["serviceAccount"] = name
    stored = core.store.get(Ref("serviceaccounts", namespace, name))
    if stored is None and name == DEFAULT_ACCOUNT:
        stored = ensure_default_account(core, namespace)
    if stored is None:
        text = f'error looking up service account {namespace}/{name}: serviceaccount "{name}" not found'
        metadata = pod["metadata"]
        raise errors.forbidden(
            core.registry.builtin("pods"), metadata.get("name") or metadata.get("generateName", ""), text
        )
    if b'"imagePullSecrets"' in stored.data and not spec.get("imagePullSecrets"):
        spec["imagePullSecrets"] = stored.decode().get("imagePullSecrets") or []


def add_default_tolerations(pod: Manifest, namespace: str, core: Core) -> None:
    """Add the tolerations for nodes that are not ready or unreachable.

    They keep a pod there for five minutes.
    """
    del namespace, core
    add_tolerations(pod["spec"])


def add_tolerations(spec: Manifest) -> None:
    """Add the tolerations that every pod has at least."""
    tolerations = spec.get("tolerations")
    tolerations = tolerations if isinstance(tolerations, list) else []
    for key in _TOLERATED:
        if not any(_tolerates(one, key) for one in tolerations):
            tolerations.append(
                {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _TOLERATION_SECONDS}
            )
    spec["tolerations"] = tolerations


def _tolerates(toleration: Any, key: str) -> bool:
    if not isinstance(toleration, dict):
        return False
    return toleration.get("key") in {key, None, ""} and toleration.get("effect") in {"NoExecute", None, ""}


def apply_runtime_class(pod: Manifest, namespace: str, core: Core) -> None:
    """Copy overhead, node selector and tolerations from the pod's RuntimeClass.

    Raises ApiError 403.
    """
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
