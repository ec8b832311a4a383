"""What admission gives and denies every new pod: a service account, default tolerations.

Kubernetes: plugin/pkg/admission/{serviceaccount,defaulttolerationseconds}. The volume with the account's token is not
added: a simulated container reads nothing, and a random volume name would make no two pods of a job alike; a runtime
that runs commands asks for tokens itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from volcanoio.localcluster.apiserver import errors
from volcanoio.localcluster.apiserver.controllers.serviceaccounts import DEFAULT_ACCOUNT, ensure_default_account
from volcanoio.localcluster.apiserver.objects import Ref
from volcanoio.model.base import Manifest

if TYPE_CHECKING:
    from volcanoio.localcluster.apiserver.core import Core

_TOLERATION_SECONDS: Final = 300
_TOLERATED: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


def give_account(pod: Manifest, namespace: str, core: Core) -> None:
    """Name the service account, which must exist, and take over its pull secrets; raises ApiError 403.

    The default account is made by a controller: a pod that comes first waits for it there, and gets it here at once.
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


def tolerate_lost_nodes(pod: Manifest, namespace: str, core: Core) -> None:
    """Let a new pod stay for five minutes on a node that is not ready or unreachable, unless it says otherwise."""
    del namespace, core
    add_tolerations(pod["spec"])


def add_tolerations(spec: Manifest) -> None:
    """The tolerations that every pod has at least."""
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
