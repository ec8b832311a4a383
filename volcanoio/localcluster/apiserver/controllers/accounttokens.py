"""Secrets of type kubernetes.io/service-account-token: filled with a token, gone with their account.

Kubernetes: pkg/controller/serviceaccount/tokens_controller.go.
"""

from __future__ import annotations

import base64
from typing import Final

from volcanoio.localcluster.apiserver.authn.tokens import Bound
from volcanoio.localcluster.apiserver.controllers.serviceaccounts import ACCOUNTS
from volcanoio.localcluster.apiserver.controllers.worklist import Worklist
from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.objects import Event, Ref
from volcanoio.localcluster.apiserver.selection import Selection

_SECRETS: Final = "secrets"
_TYPE: Final = "kubernetes.io/service-account-token"
_MARK: Final = f'"{_TYPE}"'.encode()
NAME: Final = "kubernetes.io/service-account.name"
UID: Final = "kubernetes.io/service-account.uid"


class AccountTokenController:
    """Keeps the Secrets that ask for a token."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.work: Worklist[Ref] = Worklist(self._keep)
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

    def _keep(self, ref: Ref) -> None:
        """Fill the Secret, or remove it when the account it was made for is gone."""
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
