"""Kinds that are stored and nothing more: whoever creates one is told."""

from __future__ import annotations

from typing import Final

from volcanoio.localcluster.apiserver.kinds.strategy import Strategy


def idle(kind: str) -> str:
    """The warning."""
    return f"{kind}: stored, but no controller of this server acts on it"


IDLE: Final = {
    "certificatesigningrequests.certificates.k8s.io": Strategy(warning=idle("CertificateSigningRequest")),
    "flowschemas.flowcontrol.apiserver.k8s.io": Strategy(warning=idle("FlowSchema")),
    "ipaddresses.networking.k8s.io": Strategy(warning=idle("IPAddress")),
    "mutatingadmissionpolicies.admissionregistration.k8s.io": Strategy(warning=idle("MutatingAdmissionPolicy")),
    "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io": Strategy(warning=idle("PriorityLevelConfiguration")),
    "resourceclaims.resource.k8s.io": Strategy(warning=idle("ResourceClaim")),
    "resourceclaimtemplates.resource.k8s.io": Strategy(warning=idle("ResourceClaimTemplate")),
    "servicecidrs.networking.k8s.io": Strategy(warning=idle("ServiceCIDR")),
    "validatingadmissionpolicies.admissionregistration.k8s.io": Strategy(warning=idle("ValidatingAdmissionPolicy")),
    "volumeattachments.storage.k8s.io": Strategy(warning=idle("VolumeAttachment")),
}
"""By `plural.group`; kinds that have rules besides have rooms of their own."""
