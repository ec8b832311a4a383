"""Service accounts: `default` in every namespace, `kube-root-ca.crt`, and token Secrets.

Kubernetes: pkg/controller/serviceaccount (serviceaccounts and tokens controllers),
pkg/controller/certificates/rootcacertpublisher. Deleted or changed objects are made again. Secrets of type
kubernetes.io/service-account-token are filled with a token and deleted with their account.
"""

from __future__ import annotations

import base64
from typing import Final

from volcanoio.localcluster.apiserver.apimachinery.objects import Event, Ref, Stored
from volcanoio.localcluster.apiserver.apimachinery.selectors import Selection
from volcanoio.localcluster.apiserver.authn.tokens import Bound
from volcanoio.localcluster.apiserver.controllers.workqueue import WorkQueue
from volcanoio.localcluster.apiserver.core import Core
from volcanoio.model.base import Manifest

ACCOUNTS: Final = "serviceaccounts"
DEFAULT_ACCOUNT: Final = "default"
ROOT_CA: Final = "kube-root-ca.crt"
_ROOT_CA_NOTE: Final = {
    "kubernetes.io/description": "Trust this bundle to verify connections to the API server of this cluster.",
}


def ensure_default_account(core: Core, namespace: str) -> Stored:
    """Create the default account of a namespace when it is missing, and return it."""
    ref = Ref(ACCOUNTS, namespace, DEFAULT_ACCOUNT)
    return core.store.get(ref) or _create(core, ref, {"apiVersion": "v1", "kind": "ServiceAccount"})


def _create(core: Core, ref: Ref, obj: Manifest) -> Stored:
    metadata = {"name": ref.name, "namespace": ref.namespace, "uid": core.new_uid(), "creationTimestamp": core.now()}
    obj["metadata"] = {**metadata, **obj.get("metadata", {})}
    return core.store.put(ref, obj)


class AccountController:
    """Controller that creates what every active namespace has.

    `authority` is the server's certificate authority in PEM.
    """

    def __init__(self, core: Core) -> None:
        self._core = core
        self.work: WorkQueue[str] = WorkQueue(self._reconcile_account)
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

    def _reconcile_account(self, namespace: str) -> None:
        stored = self._core.store.get(Ref("namespaces", "", namespace))
        if stored is None or stored.deleting:
            return
        ensure_default_account(self._core, namespace)
        self._reconcile_authority(namespace)

    def _reconcile_authority(self, namespace: str) -> None:
        authority = self._core.authority.decode()
        if not authority:
            return
        core, ref = self._core, Ref("configmaps", namespace, ROOT_CA)
        found = core.store.get(ref)
        obj = found.decode() if found is not None else None
        if obj is None:
            content = {"metadata": {"annotations": _ROOT_CA_NOTE}, "data": {"ca.crt": authority}}
            _create(core, ref, {"apiVersion": "v1", "kind": "ConfigMap", **content})
        elif obj.get("data") != {"ca.crt": authority}:
            obj["data"] = {"ca.crt": authority}
            core.store.put(ref, obj)


_SECRETS: Final = "secrets"
_TYPE: Final = "kubernetes.io/service-account-token"
_MARK: Final = f'"{_TYPE}"'.encode()
NAME: Final = "kubernetes.io/service-account.name"
UID: Final = "kubernetes.io/service-account.uid"


class AccountTokenController:
    """Controller that fills and removes token Secrets."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.work: WorkQueue[Ref] = WorkQueue(self._reconcile_secret)
        core.store.on(_SECRETS, self._secret_changed)
        core.store.on(ACCOUNTS, self._account_changed)
        for (namespace, name), stored in core.store.collection(_SECRETS).objects.items():
            if _MARK in stored.data:
                self.work.add(Ref(_SECRETS, namespace, name))

    def _secret_changed(self, ref: Ref, event: Event) -> None:
        if event.type != "DELETED" and _MARK in event.new.data:
            self.work.add(ref)

    def _account_changed(self, ref: Ref, event: Event) -> None:
        if event.type == "MODIFIED":
            return
        for stored in self._core.store.collection(_SECRETS).select(Selection(ref.namespace)):
            if _MARK in stored.data:
                self.work.add(Ref(_SECRETS, ref.namespace, stored.name))

    def _reconcile_secret(self, ref: Ref) -> None:
        """Fill the Secret, or remove it when its account is gone."""
        core = self._core
        stored = core.store.get(ref)
        if stored is None or stored.deleting:
            return
        secret = stored.decode()
        annotations = secret["metadata"].get("annotations") or {}
        name, uid = annotations.get(NAME), annotations.get(UID)
        if secret.get("type") != _TYPE or not name:
            return
        account = core.store.get(Ref(ACCOUNTS, ref.namespace, name))
        if account is None or (uid and uid != account.uid):
            if uid:
                core.store.remove(ref, secret)
            return
        data = dict(secret.get("data") or {})
        wanted = {"namespace": ref.namespace.encode(), "ca.crt": core.authority}
        data |= {key: base64.b64encode(value).decode() for key, value in wanted.items()}
        if not data.get("token"):
            token = core.tokens.issue_legacy(ref.namespace, ref.name, Bound(name, account.uid))
            data["token"] = base64.b64encode(token.encode()).decode()
        if data != secret.get("data") or uid != account.uid:
            secret["data"] = data
            secret["metadata"]["annotations"] = annotations | {UID: account.uid}
            core.store.put(ref, secret)
