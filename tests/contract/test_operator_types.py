"""Every type that the informers of well-known operators list is there: one that is not keeps them from starting."""

from __future__ import annotations

import pytest

from tests.contract.support import Cluster

VOLCANO = {
    "v1": "namespaces services nodes pods persistentvolumeclaims persistentvolumes resourcequotas configmaps secrets"
    " replicationcontrollers",
    "apps/v1": "replicasets statefulsets",
    "policy/v1": "poddisruptionbudgets",
    "storage.k8s.io/v1": "storageclasses volumeattachments csinodes csidrivers csistoragecapacities",
    "scheduling.k8s.io/v1": "priorityclasses",
    "resource.k8s.io/v1": "resourceclaims resourceslices deviceclasses",
}
"""Volcano's scheduler and controllers (`pkg/scheduler/cache`, `pkg/controllers`), besides its own kinds."""
KUBERAY = {
    "v1": "pods services secrets serviceaccounts endpoints persistentvolumeclaims events",
    "batch/v1": "jobs",
    "coordination.k8s.io/v1": "leases",
    "discovery.k8s.io/v1": "endpointslices",
    "events.k8s.io/v1": "events",
    "networking.k8s.io/v1": "ingresses networkpolicies ingressclasses",
    "rbac.authorization.k8s.io/v1": "roles rolebindings",
}
"""KubeRay's operator (`config/rbac/role.yaml`), besides its own kinds."""
OTHERS = {
    "apps/v1": "deployments daemonsets controllerrevisions",
    "admissionregistration.k8s.io/v1": "mutatingwebhookconfigurations validatingwebhookconfigurations"
    " validatingadmissionpolicies validatingadmissionpolicybindings",
    "apiextensions.k8s.io/v1": "customresourcedefinitions",
    "autoscaling/v2": "horizontalpodautoscalers",
    "certificates.k8s.io/v1": "certificatesigningrequests",
    "node.k8s.io/v1": "runtimeclasses",
}
"""What Helm charts and other operators commonly list."""
CASES = sorted(
    {
        f"/{'apis' if '/' in version else 'api'}/{version}/{plural}"
        for listed in (VOLCANO, KUBERAY, OTHERS)
        for version, plurals in listed.items()
        for plural in plurals.split()
    }
)


@pytest.mark.parametrize("path", CASES)
def test_type_can_be_listed_and_watched(cluster: Cluster, path: str) -> None:
    listed = cluster.get(path, limit=1).ok()
    assert listed["kind"].endswith("List")
    with cluster.watch(
        path, sendInitialEvents=True, resourceVersionMatch="NotOlderThan", allowWatchBookmarks=True
    ) as changes:
        last = next(one for one in changes if one["type"] != "ADDED")
    assert last["type"] == "BOOKMARK"
    assert last["object"]["kind"] + "List" == listed["kind"]
    assert last["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"] == "true"
