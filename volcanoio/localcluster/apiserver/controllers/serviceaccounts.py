"""Every namespace has a service account `default` and the cluster's authority as ConfigMap `kube-root-ca.crt`.

Kubernetes: pkg/controller/serviceaccount, pkg/controller/certificates/rootcacertpublisher. Deleted or changed ones are
made again.
"""

from __future__ import annotations

from typing import Final

from volcanoio.localcluster.apiserver.controllers.worklist import Worklist
from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.objects import Event, Ref, Stored
from volcanoio.model.base import Manifest

ACCOUNTS: Final = "serviceaccounts"
DEFAULT_ACCOUNT: Final = "default"
ROOT_CA: Final = "kube-root-ca.crt"
_ROOT_CA_NOTE: Final = {
    "kubernetes.io/description": "Trust this bundle to verify connections to the API server of this cluster.",
}


def ensure_default_account(core: Core, namespace: str) -> Stored:
    """The default account of a namespace, made when it is missing."""
    ref = Ref(ACCOUNTS, namespace, DEFAULT_ACCOUNT)
    return core.store.get(ref) or _make(core, ref, {"apiVersion": "v1", "kind": "ServiceAccount"})


def _make(core: Core, ref: Ref, obj: Manifest) -> Stored:
    metadata = {"name": ref.name, "namespace": ref.namespace, "uid": core.new_uid(), "creationTimestamp": core.now()}
    obj["metadata"] = {**metadata, **obj.get("metadata", {})}
    return core.store.put(ref, obj)


class AccountController:
    """Gives active namespaces what they must have; `authority` is the server's certificate authority in PEM."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.work: Worklist[str] = Worklist(self._give)
        core.store.on("namespaces", self._namespace_changed)
        core.store.on(ACCOUNTS, self._account_changed)
        core.store.on("configmaps", self._config_map_changed)
        for _, name in core.store.collection("namespaces").objects:
            self.work.add(name)

    def _namespace_changed(self, ref: Ref, event: Event) -> None:
        if event.old is None:
            self.work.add(ref.name)

    def _account_changed(self, ref: Ref, event: Event) -> None:
        if event.type == "DELETED" and ref.name == DEFAULT_ACCOUNT:
            self.work.add(ref.namespace)

    def _config_map_changed(self, ref: Ref, event: Event) -> None:
        if ref.name == ROOT_CA and event.type != "ADDED":
            self.work.add(ref.namespace)

    def _give(self, namespace: str) -> None:
        stored = self._core.store.get(Ref("namespaces", "", namespace))
        if stored is None or stored.deleting:
            return
        ensure_default_account(self._core, namespace)
        self._give_authority(namespace)

    def _give_authority(self, namespace: str) -> None:
        authority = self._core.authority.decode()
        if not authority:
            return
        core, ref = self._core, Ref("configmaps", namespace, ROOT_CA)
        found = core.store.get(ref)
        obj = found.decode() if found is not None else None
        if obj is None:
            content = {"metadata": {"annotations": _ROOT_CA_NOTE}, "data": {"ca.crt": authority}}
            _make(core, ref, {"apiVersion": "v1", "kind": "ConfigMap", **content})
        elif obj.get("data") != {"ca.crt": authority}:
            obj["data"] = {"ca.crt": authority}
            core.store.put(ref, obj)
