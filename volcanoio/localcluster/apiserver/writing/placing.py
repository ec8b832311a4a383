"""Where a new object goes, and in which form it is stored."""

from __future__ import annotations

from volcanoio.localcluster.apiserver import errors
from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.kinds.traits import NAMED_BY_SERVER
from volcanoio.localcluster.apiserver.objects import Ref
from volcanoio.localcluster.apiserver.paths import Target
from volcanoio.localcluster.apiserver.resources import Resource
from volcanoio.localcluster.apiserver.schema.comparison import write_whole_floats
from volcanoio.model.base import Manifest


def check_namespace(core: Core, target: Target, obj: Manifest) -> None:
    """The namespace of body and path agree, and it takes new objects."""
    resource, namespace = target.resource, target.namespace
    if not resource.namespaced:
        return
    stated = obj["metadata"].get("namespace")
    if not namespace or (stated and stated != namespace):
        raise errors.other_namespace()
    found = core.store.get(Ref("namespaces", "", namespace))
    if found is None:
        raise errors.not_found(core.registry.builtin("namespaces"), namespace)
    if found.deleting:
        why = f"unable to create new content in namespace {namespace} because it is being terminated"
        cause = {
            "reason": "NamespaceTerminating",
            "message": f"namespace {namespace} is being terminated",
            "field": "metadata.namespace",
        }
        raise errors.forbidden(resource, str(obj["metadata"].get("name", "")), why, causes=[cause])


def choose_name(core: Core, target: Target, meta: Manifest) -> Ref:
    """Where the object will be stored; a generated name is one that is free."""
    store, resource = core.store, target.resource
    name, prefix = meta.get("name"), meta.get("generateName")
    if not name and not prefix and resource.name in NAMED_BY_SERVER:
        name = meta["name"] = core.new_uid()
    if not name and isinstance(prefix, str) and prefix:
        while True:
            ref = Ref(resource.name, target.namespace, prefix[:58] + core.new_suffix())
            if store.get(ref) is None:
                meta["name"] = ref.name
                return ref
    return Ref(resource.name, target.namespace, name if isinstance(name, str) else "")


def to_storage(core: Core, resource: Resource, obj: Manifest, body: bytes) -> None:
    """Custom objects are stored under one version, with what its schema knows of them."""
    if resource.custom is not None:
        stored = core.registry.named(resource.name)
        if stored is not None and stored.custom is not None and stored.version != resource.version:
            obj["apiVersion"] = stored.api_version
            stored.custom.refit(obj)
        write_whole_floats(obj, body)
