"""What every cluster has from its first moment: namespaces, the two system priority classes, a storage class."""

from __future__ import annotations

from volcanoio.localcluster.apiserver.controllers.claims.provisioning import CLASS_NAME, default_storage_class
from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.kinds.cluster import NAME_LABEL, SYSTEM_NAMESPACES
from volcanoio.localcluster.apiserver.kinds.priorities import SYSTEM_CLASSES, system_class
from volcanoio.localcluster.apiserver.objects import Ref
from volcanoio.localcluster.apiserver.plugins.storage import CLASSES
from volcanoio.model.base import Manifest


def bootstrap(core: Core) -> None:
    """Create what is missing."""
    for name in SYSTEM_NAMESPACES:
        namespace = {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": name, "labels": {NAME_LABEL: name}},
            "spec": {"finalizers": ["kubernetes"]},
            "status": {"phase": "Active"},
        }
        _ensure(core, Ref("namespaces", "", name), namespace)
    for name in SYSTEM_CLASSES:
        _ensure(core, Ref("priorityclasses.scheduling.k8s.io", "", name), system_class(name))
    if not core.store.collection(CLASSES).objects:  # somebody's own classes, and their absence of a default, are kept
        _ensure(core, Ref(CLASSES, "", CLASS_NAME), default_storage_class())


def _ensure(core: Core, ref: Ref, obj: Manifest) -> None:
    if core.store.get(ref) is None:
        obj["metadata"] |= {"uid": core.new_uid(), "creationTimestamp": core.now()}
        core.store.put(ref, obj)
