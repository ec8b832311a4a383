"""State that all parts of the API server share: store, registry, clock, admission and journal."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from volcanoio.localcluster.apiserver.admission.limit_ranges import LimitRanges
from volcanoio.localcluster.apiserver.admission.quota import Quotas
from volcanoio.localcluster.apiserver.admission.webhooks.dispatcher import WebhookDispatcher
from volcanoio.localcluster.apiserver.apimachinery.clock import Clock, rfc3339
from volcanoio.localcluster.apiserver.apimachinery.errors import internal
from volcanoio.localcluster.apiserver.apimachinery.objects import Event, Ref
from volcanoio.localcluster.apiserver.apimachinery.served_resources import Registry
from volcanoio.localcluster.apiserver.authn.credentials import Identity
from volcanoio.localcluster.apiserver.authn.tokens import SigningKey, Tokens, new_key
from volcanoio.localcluster.apiserver.storage.paging import Snapshots
from volcanoio.localcluster.apiserver.storage.persistence import Journal, StorageFailed
from volcanoio.localcluster.apiserver.storage.store import Store

if TYPE_CHECKING:
    from volcanoio.localcluster.apiserver.admission.reviewers import Admission

_VARIANT = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}
"""The UUID's variant bits in its 17th digit."""
_UIDS_AT_ONCE = 64
"""Number of uids for which random digits are drawn together."""

_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"


class Core:
    """The shared state of one server."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        journal: Journal | None = None,
        admission: Sequence[Admission] = (),
        identity: Identity | None = None,
    ) -> None:
        self.store = store
        self.registry = Registry()
        self.clock = clock
        self.admission = list(admission)
        self.snapshots = Snapshots()
        self.webhooks = WebhookDispatcher(store, self.registry, self.new_uid)
        self.limits = LimitRanges(store, self.registry)
        self.quotas = Quotas(store)
        self.tokens = Tokens(store, clock, self.new_uid, SigningKey(identity.account_key if identity else new_key()))
        self.authority = identity.ca_pem if identity else b""
        """The authority that clients of this server trust, in PEM; empty without TLS."""
        self.volumes: Path | None = None
        """Parent of the directories of dynamic volumes; None for a server without a data directory."""
        self.journal = journal
        self._random = Random()
        self._entropy: list[str] = []
        """Random digits of the next uids."""
        self._second, self._now = -1, ""
        if journal is not None:
            store.observers.append(self._record)

    def now(self) -> str:
        """Return the current time as Kubernetes writes it; formatted once a second."""
        moment = self.clock.now()
        second = int(moment.timestamp())
        if second != self._second:
            self._second, self._now = second, rfc3339(moment)
        return self._now

    def new_uid(self) -> str:
        """Return a new uid (UUID version 4)."""
        if not self._entropy:  # drawing digits for each uid would cost more than all the rest
            drawn = os.urandom(16 * _UIDS_AT_ONCE).hex()
            self._entropy = [drawn[at : at + 32] for at in range(0, len(drawn), 32)]
        text = self._entropy.pop()
        return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-{_VARIANT[text[16]]}{text[17:20]}-{text[20:]}"

    def new_suffix(self) -> str:
        """Return five letters for a generated name."""
        return "".join(self._random.choices(_SUFFIX_LETTERS, k=5))

    def check_writable(self) -> None:
        """Refuse writes after a disk error; raises ApiError 500."""
        if self.journal is not None:
            try:
                self.journal.check()
            except StorageFailed as error:
                raise internal(str(error)) from error

    async def durable(self) -> None:
        """Wait until all writes so far are committed; raises ApiError 500."""
        if self.journal is not None:
            try:
                await self.journal.durable()
            except StorageFailed as error:
                raise internal(str(error)) from error

    def _record(self, ref: Ref, event: Event) -> None:
        if self.journal is not None:
            self.journal.append(ref, event.revision, None if event.type == "DELETED" else event.new.data)
