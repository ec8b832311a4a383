"""The built-in resources that are served, as a table.

Kinds below pods, nodes, namespaces, disruption budgets, definitions and leases are stored without a controller.
Names, scopes, short names and categories: Kubernetes' API reference.
"""

from __future__ import annotations

from typing import NamedTuple

from volcanoio.localcluster.apiserver.resources import ALL_VERBS, Resource


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
_STATUS_SCALE = "status scale"

_TABLE: dict[tuple[str, str], tuple[_Row, ...]] = {
    ("", "v1"): (
        _Row("Binding", "bindings", verbs=_CREATE_ONLY),
        _Row("ConfigMap", "configmaps", "cm"),
        _Row("Endpoints", "endpoints", "ep"),
        _Row("Event", "events", "ev"),
        _Row("LimitRange", "limitranges", "limits"),
        _Row("Namespace", "namespaces", "ns", "status finalize", "cluster"),
        _Row("Node", "nodes", "no", "status", "cluster"),
        _Row("PersistentVolume", "persistentvolumes", "pv", "status", "cluster"),
        _Row("PersistentVolumeClaim", "persistentvolumeclaims", "pvc", "status"),
        _Row("Pod", "pods", "po", "status binding eviction log", categories="all"),
        _Row("PodTemplate", "podtemplates"),
        _Row("ReplicationController", "replicationcontrollers", "rc", _STATUS_SCALE, categories="all"),
        _Row("ResourceQuota", "resourcequotas", "quota", "status"),
        _Row("Secret", "secrets"),
        _Row("Service", "services", "svc", "status", categories="all"),
        _Row("ServiceAccount", "serviceaccounts", "sa"),
    ),
    ("apps", "v1"): (
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
    ("coordination.k8s.io", "v1"): (_Row("Lease", "leases"),),
    ("storage.k8s.io", "v1"): (
        _Row("CSIDriver", "csidrivers", scope="cluster"),
        _Row("CSINode", "csinodes", scope="cluster"),
        _Row("CSIStorageCapacity", "csistoragecapacities"),
        _Row("StorageClass", "storageclasses", "sc", scope="cluster"),
        _Row("VolumeAttachment", "volumeattachments", "", "status", "cluster"),
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
        _Row("NetworkPolicy", "networkpolicies", "netpol"),
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
    ),
    ("apiextensions.k8s.io", "v1"): (
        _Row(
            "CustomResourceDefinition", "customresourcedefinitions", "crd crds", "status", "cluster", "api-extensions"
        ),
    ),
    ("admissionregistration.k8s.io", "v1"): (
        _Row(
            "MutatingWebhookConfiguration",
            "mutatingwebhookconfigurations",
            scope="cluster",
            categories="api-extensions",
        ),
        _Row(
            "ValidatingWebhookConfiguration",
            "validatingwebhookconfigurations",
            scope="cluster",
            categories="api-extensions",
        ),
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
