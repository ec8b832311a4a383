"""The sums of all quotas, kept with every change of the store, and the check before a write.

Check and write are one step of the event loop, so concurrent creates can never exceed a quota together. A namespace
without quotas costs one look into a dict, a server without any nothing.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from volcanoio.localcluster.apiserver import errors
from volcanoio.localcluster.apiserver.controllers.worklist import Worklist
from volcanoio.localcluster.apiserver.objects import Event, Ref, Stored
from volcanoio.localcluster.apiserver.plugins.amounts import ZERO, Amount, Amounts, amounts, shown
from volcanoio.localcluster.apiserver.plugins.quota.scopes import in_scope, is_terminating
from volcanoio.localcluster.apiserver.plugins.quota.usage import concerns, pod_compute, usage
from volcanoio.localcluster.apiserver.resources import Resource
from volcanoio.localcluster.apiserver.selection import Selection
from volcanoio.model.base import Manifest
from volcanoio.model.quotascopes import scopes_of

if TYPE_CHECKING:
    from volcanoio.localcluster.apiserver.core import Core

_NAME: Final = "resourcequotas"
_MUST_STATE: Final = tuple(
    sorted({"cpu", "memory", *(f"{one}.{name}" for one in ("requests", "limits") for name in ("cpu", "memory"))})
)
"""Amounts that every container must state where a quota limits them."""
_CHECKED_UPDATES: Final = frozenset({"persistentvolumeclaims", "services"})


class Quota:
    """One ResourceQuota and what is used of it."""

    __slots__ = ("_names", "hard", "name", "scopes", "spec", "used")

    def __init__(self, name: str, spec: Manifest) -> None:
        self.name = name
        self.spec = spec
        self.hard = amounts(spec.get("hard"))
        self.scopes = scopes_of(spec.get("scopes") or (), spec.get("scopeSelector"))
        self.used: Amounts = dict.fromkeys(self.hard, ZERO)
        self._names: dict[str, tuple[str, ...]] = {}

    def names(self, resource: str) -> tuple[str, ...]:
        """The limited names that objects of a resource count for."""
        found = self._names.get(resource)
        if found is None:
            found = self._names[resource] = tuple(sorted(name for name in self.hard if concerns(resource, name)))
        return found

    def counts(self, resource: str, obj: Manifest) -> bool:
        """Whether the object counts at all."""
        return bool(self.names(resource)) and in_scope(self.scopes, resource, obj)

    def charge(self, resource: str, used: Amounts, sign: int) -> None:
        """Count what an object uses, or no longer uses."""
        for name in self.names(resource):
            if name in used:
                before = self.used[name]
                self.used[name] = before.plus(used[name]) if sign > 0 else before.minus(used[name])


class Quotas:
    """All quotas by namespace."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.namespaces: dict[str, dict[str, Quota]] = {}
        """The namespaces that have quotas; a writer looks here before it asks anything."""
        self.work: Worklist[str] = Worklist(self.settle)
        for (namespace, name), stored in core.store.collection(_NAME).objects.items():
            self._load(namespace, name, stored)
        core.store.on(_NAME, self._quota_changed)

    def check(self, resource: Resource, namespace: str, obj: Manifest, old: Manifest | None = None) -> None:
        """Raise ApiError 403 when the write would exceed a quota of the namespace."""
        if old is not None and not _may_grow(resource.name, obj, old):
            return
        name = obj["metadata"].get("name", "")
        used = usage(resource.name, obj)
        before = usage(resource.name, old) if old is not None else {}
        for quota in self.namespaces[namespace].values():
            if not quota.counts(resource.name, obj):
                continue
            if old is None and (problem := _unstated(resource.name, quota, obj)):
                raise errors.forbidden(resource, name, f"failed quota: {quota.name}: must specify {problem}")
            counted = old is not None and quota.counts(resource.name, old)
            wanted = {
                one: used[one].minus(before.get(one, ZERO) if counted else ZERO)
                for one in quota.names(resource.name)
                if one in used
            }
            over = [one for one, more in wanted.items() if more.value > 0 and _exceeds(quota, one, more)]
            if over:
                raise errors.forbidden(resource, name, _exceeded(quota, over, wanted))

    def settle(self, namespace: str) -> None:
        """Write what is used into the statuses of a namespace's quotas."""
        store = self._core.store
        for quota in list(self.namespaces.get(namespace, {}).values()):
            ref = Ref(_NAME, namespace, quota.name)
            stored = store.get(ref)
            if stored is None:
                continue
            obj = stored.decode()
            amounts = (("hard", shown(quota.hard)), ("used", shown(quota.used)))
            status = {name: amount for name, amount in amounts if amount}
            if obj.get("status") != status and not stored.deleting:
                obj["status"] = status
                store.put(ref, obj)

    def _quota_changed(self, ref: Ref, event: Event) -> None:
        if event.type == "DELETED":
            quotas = self.namespaces.get(ref.namespace)
            if quotas is not None:
                quotas.pop(ref.name, None)
                if not quotas:
                    del self.namespaces[ref.namespace]
            if not self.namespaces:
                self._core.store.observers.remove(self._observe)
        else:
            self._load(ref.namespace, ref.name, event.new)

    def _load(self, namespace: str, name: str, stored: Stored) -> None:
        """Take a quota over, and sum up what there is, when it is new or its spec has changed."""
        spec = stored.decode().get("spec") or {}
        known = self.namespaces.get(namespace, {}).get(name)
        if known is not None and known.spec == spec:
            return
        quota = Quota(name, spec)
        for resource, collection in self._core.store.collections():
            if quota.names(resource):
                for one in collection.select(Selection(namespace)):
                    obj = one.decode()
                    if quota.counts(resource, obj):
                        quota.charge(resource, usage(resource, obj), 1)
        if not self.namespaces:
            self._core.store.observers.append(self._observe)
        self.namespaces.setdefault(namespace, {})[name] = quota
        self.work.add(namespace)

    def _observe(self, ref: Ref, event: Event) -> None:
        quotas = self.namespaces.get(ref.namespace)
        if quotas is None:
            return
        interested = [quota for quota in quotas.values() if quota.names(ref.resource)]
        if not interested:
            return
        changes = []
        if event.old is not None:
            changes.append((event.old.decode(), -1))
        if event.type != "DELETED":
            changes.append((event.new.decode(), 1))
        for obj, sign in changes:
            used = usage(ref.resource, obj)
            for quota in interested:
                if quota.counts(ref.resource, obj):
                    quota.charge(ref.resource, used, sign)
        self.work.add(ref.namespace)


def _may_grow(resource: str, obj: Manifest, old: Manifest) -> bool:
    """Whether an update may use more: of claims, services, and pods whose scope changes."""
    if resource == "pods":
        return is_terminating(obj["spec"]) != is_terminating(old["spec"])
    return resource in _CHECKED_UPDATES


def _exceeds(quota: Quota, name: str, more: Amount) -> bool:
    return quota.used[name].value + more.value > quota.hard[name].value


def _exceeded(quota: Quota, over: list[str], wanted: Amounts) -> str:
    def listed(found: Amounts) -> str:
        return ",".join(f"{name}={found[name]}" for name in over)

    return (
        f"exceeded quota: {quota.name}, requested: {listed(wanted)}, used: {listed(quota.used)}, "
        f"limited: {listed(quota.hard)}"
    )


@lru_cache(maxsize=256)
def _required(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in _MUST_STATE if name in names)


def _unstated(resource: str, quota: Quota, obj: Manifest) -> str:
    """Which amounts which containers leave open though the quota limits them; empty when none."""
    if resource != "pods":
        return ""
    required = _required(quota.names(resource))
    spec = obj["spec"]
    if not required or any((spec.get("resources") or {}).values()):
        return ""
    missing: dict[str, list[str]] = {}
    for field in ("containers", "initContainers"):
        for container in spec.get(field) or ():
            resources = container.get("resources") or {}
            stated = pod_compute(amounts(resources.get("requests")), amounts(resources.get("limits")))
            for name in required:
                if name not in stated:
                    missing.setdefault(name, []).append(container.get("name", ""))
    return "; ".join(f"{name} for: {','.join(sorted(set(missing[name])))}" for name in sorted(missing))
