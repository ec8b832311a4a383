"""Rules of a Job's volumes."""

from __future__ import annotations

from collections.abc import Sequence

from volcanoio.engine.admission.dnsnames import subdomain_rule
from volcanoio.engine.admission.findings import Findings
from volcanoio.model.batch import VolumeSpec


def check_volumes(volumes: Sequence[VolumeSpec], findings: Findings) -> None:
    """Mount paths and claims. Both older forms of a claim are accepted with a warning, and refused when strict."""
    seen: set[str] = set()
    for index, volume in enumerate(volumes):
        path = f"spec.volumes[{index}]"
        if not volume.mount_path:
            findings.refuse(f"{path}.mountPath", "mountPath is required", "give the path inside the containers")
        elif volume.mount_path in seen:
            findings.refuse(f"{path}.mountPath", f"duplicated mountPath: {volume.mount_path}", "give each its own path")
        seen.add(volume.mount_path)
        if volume.volume_claim_name and (rule := subdomain_rule(volume.volume_claim_name)):
            findings.refuse(
                f"{path}.volumeClaimName",
                f"invalid volumeClaimName {volume.volume_claim_name}: {rule}",
                "choose a name of lower case letters, digits, '-' and '.'",
            )
        if not volume.volume_claim_name and volume.volume_claim is None:
            findings.tolerate(
                path,
                "either volumeClaim or volumeClaimName must be specified",
                "it is made an emptyDir, which ends with each pod; name a claim to keep the data",
            )
        elif volume.volume_claim_name and volume.volume_claim is not None:
            findings.tolerate(
                path,
                "conflict: volumeClaimName and volumeClaim are both specified",
                f"claim {volume.volume_claim_name} is used, and created as described if it is absent; keep one of them",
            )
