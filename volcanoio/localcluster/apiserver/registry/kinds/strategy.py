"""The strategy of a kind: its defaults, validation and immutable fields.

The sets at the top list kinds with other differences (Kubernetes: pkg/registry, strategy.go and storage.go). Also the
strategies of leases, and of kinds that are stored without a controller, which warn when one is created.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from volcanoio.localcluster.apiserver.core import Core
from volcanoio.model.base import Manifest
from volcanoio.model.validation.field_errors import FieldError, invalid

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
"""Kinds whose PUT requires a resourceVersion (AllowUnconditionalUpdate is false)."""

UPDATE_CREATES: Final = frozenset(
    {
        *("endpoints", "events", "limitranges", "services"),
        *(f"{plural}.rbac.authorization.k8s.io" for plural in _RBAC),
        *("leases.coordination.k8s.io", "runtimeclasses.node.k8s.io"),
    }
)
"""Kinds whose PUT creates a missing object (AllowCreateOnUpdate)."""

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
"""Kinds whose DELETE always returns the object; others return a Status once it is gone (ReturnDeletedObject)."""

DEPRECATED: Final = {
    "componentstatuses": "v1 ComponentStatus is deprecated in v1.19+",
    "endpoints": "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
}
"""Warnings for all requests of deprecated kinds (APILifecycleDeprecated)."""

FIRST_GENERATION_ONLY: Final = frozenset({"priorityclasses.scheduling.k8s.io"})
"""Kinds whose generation is set on creation and never increased."""

NAMED_BY_SERVER: Final = frozenset({"limitranges"})
"""Kinds whose objects get a uid as name when they have none."""

ORPHANING: Final = frozenset({"jobs.batch", "replicationcontrollers"})
"""Kinds whose deletion orphans dependents by default (DefaultGarbageCollectionPolicy)."""

UNCOLLECTED: Final = frozenset({"events"})
"""Kinds whose deletion never waits for dependents (DefaultGarbageCollectionPolicy: Unsupported)."""

JOB_DELETION: Final = (
    "child pods are preserved by default when jobs are deleted; "
    "set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning"
)
"""Warning for the deletion of a Job without a propagation policy."""


def _no_default(obj: Manifest, core: Core) -> None:
    del obj, core


def _keep_nothing(new: Manifest, old: Manifest) -> None:
    del new, old


def _no_errors(obj: Manifest) -> list[FieldError]:
    del obj
    return []


def _no_update_errors(new: Manifest, old: Manifest) -> list[FieldError]:
    del new, old
    return []


@dataclass(frozen=True, slots=True)
class Strategy:
    """Hooks for creates and updates of one kind.

    `create` sets the fields of a new object besides defaults (a status, an allocated value); `default` sets missing
    fields on create and update; `keep` copies from the stored object what an update must not set. `validate` returns
    errors, `validate_update` forbidden changes, `validate_status` the errors of a new status. `create` and `default`
    change the object in place and may raise ApiError. `warning` is sent to each creator, as is the result of `warn` for
    a new object (and the old one, on an update). `only_updates` kinds validate an update by `validate_update` alone.
    """

    create: Callable[[Manifest, Core], None] = _no_default
    default: Callable[[Manifest, Core], None] = _no_default
    keep: Callable[[Manifest, Manifest], None] = _keep_nothing
    validate: Callable[[Manifest], list[FieldError]] = _no_errors
    validate_update: Callable[[Manifest, Manifest], list[FieldError]] = _no_update_errors
    validate_status: Callable[[Manifest, Manifest], list[FieldError]] = _no_update_errors
    only_updates: bool = False
    warning: str = ""
    warn: Callable[[Manifest, Manifest | None], list[str]] | None = None


PLAIN = Strategy()


def idle(kind: str) -> str:
    """Return the warning for a kind without a controller."""
    return f"{kind}: stored, but no controller of this server acts on it"


IDLE: Final = {
    "certificatesigningrequests.certificates.k8s.io": Strategy(warning=idle("CertificateSigningRequest")),
    "flowschemas.flowcontrol.apiserver.k8s.io": Strategy(warning=idle("FlowSchema")),
    "ipaddresses.networking.k8s.io": Strategy(warning=idle("IPAddress")),
    "mutatingadmissionpolicies.admissionregistration.k8s.io": Strategy(warning=idle("MutatingAdmissionPolicy")),
    "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io": Strategy(warning=idle("PriorityLevelConfiguration")),
    "servicecidrs.networking.k8s.io": Strategy(warning=idle("ServiceCIDR")),
    "validatingadmissionpolicies.admissionregistration.k8s.io": Strategy(warning=idle("ValidatingAdmissionPolicy")),
    "volumeattachments.storage.k8s.io": Strategy(warning=idle("VolumeAttachment")),
}
"""Strategies by `plural.group` of kinds without a controller; kinds with validation are in other modules."""


def _spec(obj: Manifest) -> Manifest:
    spec = obj.get("spec")
    if not isinstance(spec, dict):
        spec = obj["spec"] = {}
    return spec


def _validate_lease(lease: Manifest) -> list[FieldError]:
    spec = lease.get("spec") or {}
    duration, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    found: list[FieldError] = []
    if duration is not None and duration <= 0:
        found.append(invalid("spec.leaseDurationSeconds", duration, "must be greater than 0"))
    if transitions is not None and transitions < 0:
        found.append(invalid("spec.leaseTransitions", transitions, "must be greater than or equal to 0"))
    return found


LEASES = Strategy(validate=_validate_lease)
