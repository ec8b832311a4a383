"""The pods and claims of a StatefulSet: names, ordinals, labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from volcanoio.localcluster.controllers.history import template_of
from volcanoio.localcluster.controllers.kinds import STATEFUL_SET, ControllerRevision, Workload
from volcanoio.localcluster.controllers.pods import pod_of
from volcanoio.localcluster.controllers.quantities import count
from volcanoio.model.base import Manifest
from volcanoio.model.core import Pod
from volcanoio.model.references import owner_reference

REVISION_LABEL = "controller-revision-hash"
_NAME_LABEL = "statefulset.kubernetes.io/pod-name"
_INDEX_LABEL = "apps.kubernetes.io/pod-index"


def first_ordinal(owner: Workload) -> int:
    """The ordinal of the first pod."""
    return count((owner.spec.get("ordinals") or {}).get("start"))


def ordinal(owner: Workload, pod: Pod) -> int | None:
    """The number at the end of a member's name."""
    parent, _, number = pod.metadata.name.rpartition("-")
    return int(number) if parent == owner.metadata.name and number.isdigit() else None


def revision_of(pod: Pod) -> str:
    """The name of the revision a pod was made of."""
    return pod.metadata.labels.get(REVISION_LABEL, "")


def name_of(owner: Workload, number: int) -> str:
    """A member's name."""
    return f"{owner.metadata.name}-{number}"


def member(owner: Workload, revision: ControllerRevision, number: int) -> Manifest:
    """The pod of an ordinal."""
    name = name_of(owner, number)
    labels = {_NAME_LABEL: name, _INDEX_LABEL: str(number), REVISION_LABEL: revision.metadata.name}
    prefix = f"{owner.metadata.name}-"
    template = template_of(revision)
    pod = pod_of(template, STATEFUL_SET, owner, name, generate_name=prefix, labels=labels)
    spec = dict(pod["spec"])
    spec["hostname"] = name
    if owner.spec.get("serviceName"):
        spec["subdomain"] = owner.spec["serviceName"]
    claims = [one["metadata"]["name"] for one in claim_templates(owner)]
    if claims:
        volumes = [{"name": claim, "persistentVolumeClaim": {"claimName": f"{claim}-{name}"}} for claim in claims]
        spec["volumes"] = [*volumes, *(one for one in spec.get("volumes") or () if one.get("name") not in claims)]
    pod["spec"] = spec
    return pod


def claim_templates(owner: Workload) -> list[Mapping[str, Any]]:
    """The templates of claims."""
    return list(owner.spec.get("volumeClaimTemplates") or ())


def claim_keys(owner: Workload, number: int) -> list[str]:
    """The keys of a member's claims."""
    meta = owner.metadata
    return [f"{meta.namespace}/{one['metadata']['name']}-{name_of(owner, number)}" for one in claim_templates(owner)]


def claim(owner: Workload, template: Mapping[str, Any], number: int) -> Manifest:
    """A claim of a member: it stays when the pod goes, and when the set goes, too, unless it is to go with it."""
    known = template.get("metadata") or {}
    selector = (owner.spec.get("selector") or {}).get("matchLabels") or {}
    metadata: Manifest = {
        **{key: value for key, value in known.items() if value is not None},
        "name": f"{known['name']}-{name_of(owner, number)}",
        "namespace": owner.metadata.namespace,
        "labels": {**(known.get("labels") or {}), **selector},
    }
    policy = owner.spec.get("persistentVolumeClaimRetentionPolicy") or {}
    if policy.get("whenDeleted") == "Delete":
        metadata["ownerReferences"] = [owner_reference(STATEFUL_SET, owner)]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata,
        "spec": template.get("spec") or {},
    }
