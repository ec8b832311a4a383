"""In what built-in kinds differ when they are written (Kubernetes: pkg/registry, strategy.go and storage.go)."""

from __future__ import annotations

from typing import Final

_ADMISSION: Final = (
    *("mutatingadmissionpolicies", "mutatingadmissionpolicybindings", "mutatingwebhookconfigurations"),
    *("validatingadmissionpolicies", "validatingadmissionpolicybindings", "validatingwebhookconfigurations"),
)
_RBAC: Final = ("clusterrolebindings", "clusterroles", "rolebindings", "roles")

UPDATE_NEEDS_VERSION: Final = frozenset(
    {
        *(f"{plural}.admissionregistration.k8s.io" for plural in _ADMISSION),
        *("csidrivers.storage.k8s.io", "csinodes.storage.k8s.io", "csistoragecapacities.storage.k8s.io"),
        *("leases.coordination.k8s.io", "poddisruptionbudgets.policy", "runtimeclasses.node.k8s.io"),
        *("customresourcedefinitions.apiextensions.k8s.io", "volumeattachments.storage.k8s.io"),
    }
)
"""Kinds whose PUT must say the resourceVersion it was made for (AllowUnconditionalUpdate is false)."""

UPDATE_CREATES: Final = frozenset(
    {
        *("endpoints", "events", "limitranges", "services"),
        *(f"{plural}.rbac.authorization.k8s.io" for plural in _RBAC),
        *("leases.coordination.k8s.io", "runtimeclasses.node.k8s.io"),
    }
)
"""Kinds of which a PUT makes an object where there is none (AllowCreateOnUpdate)."""

DELETION_RETURNS_OBJECT: Final = frozenset(
    {
        *("namespaces", "persistentvolumeclaims", "persistentvolumes", "pods", "podtemplates", "resourcequotas"),
        *("serviceaccounts", "services"),
        *("deviceclasses.resource.k8s.io", "devicetaintrules.resource.k8s.io", "resourceclaims.resource.k8s.io"),
        *("resourceclaimtemplates.resource.k8s.io", "resourceslices.resource.k8s.io"),
        *("csidrivers.storage.k8s.io", "csinodes.storage.k8s.io", "storageclasses.storage.k8s.io"),
        *("volumeattachments.storage.k8s.io", "volumeattributesclasses.storage.k8s.io"),
    }
)
"""Kinds whose DELETE is answered with the object, also when it is gone; others with a Status (ReturnDeletedObject)."""

DEPRECATED: Final = {
    "componentstatuses": "v1 ComponentStatus is deprecated in v1.19+",
    "endpoints": "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
}
"""Kinds of which every request is answered with a warning (APILifecycleDeprecated)."""

FIRST_GENERATION_ONLY: Final = frozenset({"priorityclasses.scheduling.k8s.io"})
"""Kinds of which a new object has a generation that no change counts on."""

NAMED_BY_SERVER: Final = frozenset({"limitranges"})
"""Kinds of which an object without a name gets a uid for one."""

ORPHANING: Final = frozenset({"jobs.batch", "replicationcontrollers"})
"""Kinds whose deletion leaves dependents alone unless it says otherwise (DefaultGarbageCollectionPolicy)."""

UNCOLLECTED: Final = frozenset({"events"})
"""Kinds whose deletion never waits for dependents (DefaultGarbageCollectionPolicy: Unsupported)."""

JOB_DELETION: Final = (
    "child pods are preserved by default when jobs are deleted; "
    "set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning"
)
"""What is told to whoever deletes a Job and does not say what becomes of its pods."""
