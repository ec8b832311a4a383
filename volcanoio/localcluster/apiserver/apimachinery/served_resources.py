"""Resources served at present: a table of the built-in ones, and custom resources.

Kinds below pods, nodes, namespaces, disruption budgets, definitions and leases are stored without a controller. Names,
scopes, short names and categories: Kubernetes' API reference. Custom resources come and go with their definitions.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from volcanoio.localcluster.apiserver.apimachinery.resources import ALL_VERBS, Resource


class _Row(NamedTuple):
    """One line of the table: kind, plural, and what differs from a plain namespaced resource."""

    kind: str
    plural: str
    short: str = ""
    subresources: str = ""
    scope: str = "namespaced"
    categories: str = ""
    verbs: tuple[str, ...] = ALL_VERBS


_CREATE_ONLY = ("create",)
_ONE_BY_ONE = tuple(verb for verb in ALL_VERBS if verb != "deletecollection")
_STATUS_SCALE = "status scale"


def _extension(kind: str, plural: str, subresources: str = "") -> _Row:
    """Return a row of a kind that extends the API itself."""
    return _Row(kind, plural, "", subresources, "cluster", "api-extensions")


_TABLE: dict[tuple[str, str], tuple[_Row, ...]] = {
    ("", "v1"): (
        _Row("Binding", "bindings", verbs=_CREATE_ONLY),
        _Row("ConfigMap", "configmaps", "cm"),
        _Row("Endpoints", "endpoints", "ep"),
        _Row("Event", "events", "ev"),
        _Row("LimitRange", "limitranges", "limits"),
        _Row("Namespace", "namespaces", "ns", "status finalize", "cluster", verbs=_ONE_BY_ONE),
        _Row("Node", "nodes", "no", "status", "cluster"),
        _Row("PersistentVolume", "persistentvolumes", "pv", "status", "cluster"),
        _Row("PersistentVolumeClaim", "persistentvolumeclaims", "pvc", "status"),
        _Row("Pod", "pods", "po", "status binding eviction log exec attach portforward", categories="all"),
        _Row("PodTemplate", "podtemplates"),
        _Row("ReplicationController", "replicationcontrollers", "rc", _STATUS_SCALE, categories="all"),
        _Row("ResourceQuota", "resourcequotas", "quota", "status"),
        _Row("Secret", "secrets"),
        _Row("Service", "services", "svc", "status", categories="all"),
        _Row("ServiceAccount", "serviceaccounts", "sa", "token"),
    ),
    ("apps", "v1"): (
        _Row("ControllerRevision", "controllerrevisions"),
        _Row("DaemonSet", "daemonsets", "ds", "status", categories="all"),
        _Row("Deployment", "deployments", "deploy", _STATUS_SCALE, categories="all"),
        _Row("ReplicaSet", "replicasets", "rs", _STATUS_SCALE, categories="all"),
        _Row("StatefulSet", "statefulsets", "sts", _STATUS_SCALE, categories="all"),
    ),
    ("batch", "v1"): (
        _Row("CronJob", "cronjobs", "cj", "status", categories="all"),
        _Row("Job", "jobs", "", "status", categories="all"),
    ),
    ("policy", "v1"): (_Row("PodDisruptionBudget", "poddisruptionbudgets", "pdb", "status"),),
    ("scheduling.k8s.io", "v1"): (_Row("PriorityClass", "priorityclasses", "pc", scope="cluster"),),
    ("scheduling.k8s.io", "v1beta1"): (
        _Row("PodGroup", "podgroups", "", "status"),
        _Row("Workload", "workloads"),
    ),
    ("coordination.k8s.io", "v1"): (_Row("Lease", "leases"),),
    ("certificates.k8s.io", "v1"): (
        _Row("CertificateSigningRequest", "certificatesigningrequests", "csr", "status", "cluster"),
    ),
    ("events.k8s.io", "v1"): (_Row("Event", "events", "ev"),),
    ("flowcontrol.apiserver.k8s.io", "v1"): (
        _Row("FlowSchema", "flowschemas", "", "status", "cluster"),
        _Row("PriorityLevelConfiguration", "prioritylevelconfigurations", "", "status", "cluster"),
    ),
    ("storage.k8s.io", "v1"): (
        _Row("CSIDriver", "csidrivers", scope="cluster"),
        _Row("CSINode", "csinodes", scope="cluster"),
        _Row("CSIStorageCapacity", "csistoragecapacities"),
        _Row("StorageClass", "storageclasses", "sc", scope="cluster"),
        _Row("VolumeAttachment", "volumeattachments", "", "status", "cluster"),
        _Row("VolumeAttributesClass", "volumeattributesclasses", "vac", scope="cluster"),
    ),
    ("resource.k8s.io", "v1"): (
        _Row("DeviceClass", "deviceclasses", scope="cluster"),
        _Row("ResourceClaim", "resourceclaims", "", "status"),
        _Row("ResourceClaimTemplate", "resourceclaimtemplates"),
        _Row("ResourceSlice", "resourceslices", scope="cluster"),
    ),
    ("networking.k8s.io", "v1"): (
        _Row("Ingress", "ingresses", "ing", "status"),
        _Row("IngressClass", "ingressclasses", scope="cluster"),
        _Row("IPAddress", "ipaddresses", "ip", scope="cluster"),
        _Row("NetworkPolicy", "networkpolicies", "netpol"),
        _Row("ServiceCIDR", "servicecidrs", "", "status", "cluster"),
    ),
    ("discovery.k8s.io", "v1"): (_Row("EndpointSlice", "endpointslices"),),
    ("rbac.authorization.k8s.io", "v1"): (
        _Row("ClusterRole", "clusterroles", scope="cluster"),
        _Row("ClusterRoleBinding", "clusterrolebindings", scope="cluster"),
        _Row("Role", "roles"),
        _Row("RoleBinding", "rolebindings"),
    ),
    ("authorization.k8s.io", "v1"): (
        _Row("LocalSubjectAccessReview", "localsubjectaccessreviews", verbs=_CREATE_ONLY),
        _Row("SelfSubjectAccessReview", "selfsubjectaccessreviews", scope="cluster", verbs=_CREATE_ONLY),
        _Row("SelfSubjectRulesReview", "selfsubjectrulesreviews", scope="cluster", verbs=_CREATE_ONLY),
        _Row("SubjectAccessReview", "subjectaccessreviews", scope="cluster", verbs=_CREATE_ONLY),
    ),
    ("authentication.k8s.io", "v1"): (
        _Row("SelfSubjectReview", "selfsubjectreviews", scope="cluster", verbs=_CREATE_ONLY),
        _Row("TokenReview", "tokenreviews", scope="cluster", verbs=_CREATE_ONLY),
    ),
    ("apiextensions.k8s.io", "v1"): (
        _Row(
            "CustomResourceDefinition", "customresourcedefinitions", "crd crds", "status", "cluster", "api-extensions"
        ),
    ),
    ("admissionregistration.k8s.io", "v1"): (
        _extension("MutatingAdmissionPolicy", "mutatingadmissionpolicies"),
        _extension("MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings"),
        _extension("MutatingWebhookConfiguration", "mutatingwebhookconfigurations"),
        _extension("ValidatingAdmissionPolicy", "validatingadmissionpolicies", "status"),
        _extension("ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings"),
        _extension("ValidatingWebhookConfiguration", "validatingwebhookconfigurations"),
    ),
    ("autoscaling", "v2"): (
        _Row("HorizontalPodAutoscaler", "horizontalpodautoscalers", "hpa", "status", categories="all"),
    ),
    ("node.k8s.io", "v1"): (_Row("RuntimeClass", "runtimeclasses", scope="cluster"),),
}


def _resource(group: str, version: str, row: _Row) -> Resource:
    return Resource(
        group=group,
        version=version,
        kind=row.kind,
        plural=row.plural,
        namespaced=row.scope == "namespaced",
        singular=row.kind.lower(),
        short_names=tuple(row.short.split()),
        categories=tuple(row.categories.split()),
        subresources=tuple(row.subresources.split()),
        verbs=row.verbs,
    )


BUILTINS: tuple[Resource, ...] = tuple(
    _resource(group, version, row) for (group, version), rows in _TABLE.items() for row in rows
)


class Registry:
    """The served resources.

    `revision` grows on each change, so that documents built from it can be cached.
    """

    def __init__(self, builtins: Iterable[Resource] = BUILTINS) -> None:
        self._by_path = {(one.group, one.version, one.plural): one for one in builtins}
        self._by_name: dict[str, Resource] = {one.name: one for one in self._by_path.values()}
        self.revision = 1

    def resources(self) -> tuple[Resource, ...]:
        """Return all served resources: built-ins first, then custom ones in order of addition."""
        return tuple(self._by_path.values())

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        """Return the resource served at a path."""
        return self._by_path.get((group, version, plural))

    def has_group(self, group: str, *, builtin: bool = False) -> bool:
        """Return whether any resource of the group is served.

        With `builtin`, any but custom resources.
        """
        return any(one.group == group and not (builtin and one.custom) for one in self._by_path.values())

    def named(self, name: str) -> Resource | None:
        """Return the resource stored under `plural.group`, in its storage version."""
        return self._by_name.get(name)

    def builtin(self, name: str) -> Resource:
        """Return a built-in resource by `plural.group`; raises KeyError."""
        return self._by_name[name]

    def for_kind(self, api_version: str, kind: str) -> Resource | None:
        """Return the resource of an apiVersion and kind."""
        return next(
            (one for one in self._by_path.values() if one.kind == kind and one.api_version == api_version), None
        )

    def add_custom(self, *versions: Resource) -> None:
        """Serve a custom resource in these versions, the stored one last.

        Replaces an earlier definition.
        """
        self._drop(versions[-1].name)
        for one in versions:
            if one.custom is None or one.custom.served:
                self._by_path[one.group, one.version, one.plural] = one
            self._by_name[one.name] = one
        self.revision += 1

    def remove_custom(self, group: str, plural: str) -> None:
        """Stop serving a custom resource."""
        self._drop(f"{plural}.{group}")
        self.revision += 1

    def _drop(self, name: str) -> None:
        gone = [path for path, one in self._by_path.items() if one.name == name and one.custom is not None]
        for path in gone:
            del self._by_path[path]
        known = self._by_name.get(name)
        if known is not None and known.custom is not None:
            del self._by_name[name]
