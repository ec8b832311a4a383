"""Managed fields of creates and updates: what is written into metadata.managedFields, and when nothing is."""

from __future__ import annotations

from typing import Any, Final

from volcanoio.localcluster.apiserver.apply import managers, owners, owning
from volcanoio.localcluster.apiserver.apply.owners import Owners
from volcanoio.localcluster.apiserver.apply.terms import terms
from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.resources import Resource
from volcanoio.model.base import Manifest

_SERVICES: Final = "services"
_ALLOCATED: Final = frozenset({"clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"})


def created(core: Core, resource: Resource, obj: Manifest, manager: str) -> list[Manifest]:
    """The entries of a new object, complete with its defaults, that `manager` creates.

    A client may bring entries along, as one that copies an object does.
    """
    brought = owners.stated(obj["metadata"].get("managedFields"))
    empty: Manifest = {"apiVersion": obj["apiVersion"], "kind": obj["kind"]}
    return _updated(core, resource, "", (empty, bare(obj)), brought or {}, manager)


def updated(
    core: Core, resource: Resource, subresource: str, old: Manifest, new: Manifest, sent: Manifest
) -> list[Manifest]:
    """The entries after an update of an object, complete with its defaults; empty when it is not tracked (any more).

    `sent` is the object as the client wrote it; `new` has kept what the client cannot write, and is without managed
    fields. Owners in other versions are judged by what was sent, as Kubernetes does.
    """
    known: Any = old["metadata"].get("managedFields")
    stated: Any = sent["metadata"].get("managedFields")
    found: Owners | None = None
    if stated is not None and not subresource and stated != known:
        if owners.is_reset(stated):
            return []
        found = owners.stated(stated)
    found = found or owners.decode(known)
    if not found:
        return []
    if resource.name == _SERVICES:
        new = _unallocated(new, sent)
    if any(owned.version != resource.api_version for owned in found.values()):
        new = bare(sent)
    return _updated(core, resource, subresource, (bare(old), new), found, managers.current_manager())


def _updated(
    core: Core, resource: Resource, subresource: str, objects: tuple[Manifest, Manifest], known: Owners, manager: str
) -> list[Manifest]:
    old, new = objects
    writer = owners.updater(manager, resource.api_version, subresource)
    found = owning.update(terms(core.registry, resource, subresource), old, new, known, writer, core.now())
    return owners.encode(owners.cap_updaters(found))


def _unallocated(service: Manifest, sent: Manifest) -> Manifest:
    """A Service without what it keeps of before though the update did not say it: that is nobody's any more."""
    said, spec = sent.get("spec"), service.get("spec")
    if not isinstance(said, dict) or not isinstance(spec, dict):
        return service
    return {**service, "spec": {key: one for key, one in spec.items() if key in said or key not in _ALLOCATED}}


def write(new: Manifest, old: Manifest, entries: list[Manifest]) -> None:
    """Put entries into an updated object; where nothing but their times changed, those of before."""
    if not entries:
        return
    known = old["metadata"].get("managedFields")
    if known is not None:
        new["metadata"]["managedFields"] = known
        if new == old and owners.same_but_times(entries, known):
            return
    new["metadata"]["managedFields"] = entries


def as_sent(obj: Manifest) -> Manifest:
    """The object as a client wrote it, for when the server has gone on to change it; parts are shared.

    But for the specs of Services, into which the server puts what it has allocated.
    """
    sent = {**obj, "metadata": dict(obj["metadata"])}
    if obj.get("kind") == "Service" and isinstance(obj.get("spec"), dict):
        sent["spec"] = dict(obj["spec"])
    return sent


def bare(obj: Manifest) -> Manifest:
    """The object without its managed fields; parts are shared."""
    metadata = {key: value for key, value in obj["metadata"].items() if key != "managedFields"}
    return {**obj, "metadata": metadata}
