"""What a server says it serves, in a form that can be compared; and what a real one said, recorded.

`python -m tests.contract.discoveries KUBECONFIG` records it again, from a kube-apiserver of a newer release.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TypeAlias

from tests.contract.support import Cluster, Obj

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
RECORDED = Path(__file__).parent / "results" / "discovery-v1.36.json"
Served: TypeAlias = dict[str, Obj]
"""Discovery of each resource and subresource, by `group/version/resource[/subresource]` (`v1/pods/status`)."""

NOT_SERVED = {
    "apiregistration.k8s.io/v1/apiservices": "there is no aggregation layer",
    "autoscaling/v1/horizontalpodautoscalers": "built-in kinds are served in one version each",
    "certificates.k8s.io/v1/certificatesigningrequests/approval": "no signer",
    "v1/componentstatuses": "deprecated; there are no components",
    "v1/nodes/proxy": "simulated nodes listen nowhere; only what Prometheus asks them for is answered",
    "v1/pods/ephemeralcontainers": "containers are not added to running pods",
    "v1/pods/proxy": "there is no pod network",
    "v1/pods/resize": "resources of running pods do not change",
    "v1/services/proxy": "there is no service network",
}
"""Each deliberate difference, and why. A resource stands for its subresources too."""
ADDED = {
    "scheduling.k8s.io/v1beta1/podgroups": "Kubernetes 1.37 has it",
    "scheduling.k8s.io/v1beta1/podgroups/status": "Kubernetes 1.37 has it",
    "scheduling.k8s.io/v1beta1/workloads": "Kubernetes 1.37 has it",
    "metrics.k8s.io/v1beta1/nodes": "a real cluster has it from metrics-server",
    "metrics.k8s.io/v1beta1/pods": "a real cluster has it from metrics-server",
}
_SHOWN = ("scope", "singularResource", "shortNames", "categories", "verbs")


def builtins(cluster: Cluster) -> Served:
    """Return the server's discovery of built-in resources."""
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    custom = {one["spec"]["group"] for one in cluster.get(definitions).ok()["items"]}
    found: Served = {}
    for path in ("/api", "/apis"):
        for group in cluster.get(path, accept=AGGREGATED).ok()["items"]:
            name = group["metadata"].get("name", "")
            for version in group["versions"] if name not in custom else ():
                place = f"{name}/{version['version']}" if name else version["version"]
                for resource in version["resources"]:
                    found |= _rows(place, resource)
    return found


def _rows(place: str, resource: Obj) -> Served:
    row = {key: resource[key] for key in _SHOWN if resource.get(key)}
    row |= {"kind": _kind(place, resource), "verbs": sorted(resource["verbs"])}
    rows = {f"{place}/{resource['resource']}": row}
    for one in resource.get("subresources") or ():
        below = f"{place}/{resource['resource']}/{one['subresource']}"
        rows[below] = {"kind": _kind(place, one), "verbs": sorted(one["verbs"])}
    return rows


def _kind(place: str, row: Obj) -> str:
    """Version and kind; where the row names no version it is that of its place."""
    kind = row["responseKind"]
    version = "/".join(part for part in (kind.get("group"), kind.get("version")) if part)
    return f"{version or place}/{kind['kind']}"


def recorded() -> Served:
    """Return the recorded discovery of the real server."""
    found: Served = json.loads(RECORDED.read_text())
    return found


def main() -> None:
    """Record what a server says."""
    cluster = Cluster.of(Path(sys.argv[1]))
    rows = [f"{json.dumps(key)}: {json.dumps(row)}" for key, row in sorted(builtins(cluster).items())]
    RECORDED.write_text("{" + ",\n ".join(rows) + "}\n")
    cluster.close()


if __name__ == "__main__":
    main()
