"""core/v1 PodTemplateSpec, PersistentVolumeClaimSpec and LabelSelector as structural schemas.

Generated from the models of the installed kubernetes_asyncio, whose fields follow the Kubernetes API of that release.
The tables below contain what the models do not: quantities, int-or-string, 64-bit integers, and the keys of lists
that server-side apply merges by name (Kubernetes: `listType=map` markers in `k8s.io/api/core/v1/types.go`).
Descriptions are the first sentences of the models' own; fields that contain another model are described by its type.
Metadata inside a template keeps five fields, as in Volcano's CRDs (controller-gen `generateEmbeddedObjectMeta`).
"""

import re
from functools import cache
from types import SimpleNamespace
from typing import Any

from kubernetes_asyncio.client import models

Schema = dict[str, Any]

_QUANTITY_PATTERN = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
INT_OR_STRING: Schema = {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}
QUANTITY: Schema = {**INT_OR_STRING, "pattern": _QUANTITY_PATTERN}
RESOURCE_LIST: Schema = {"type": "object", "additionalProperties": QUANTITY}
STRING_MAP: Schema = {"type": "object", "additionalProperties": {"type": "string"}}
EMBEDDED_METADATA: Schema = {
    "type": "object",
    "properties": {
        "annotations": {**STRING_MAP, "description": "Annotations of what is created."},
        "finalizers": {"type": "array", "items": {"type": "string"}, "description": "Finalizers of what is created."},
        "labels": {**STRING_MAP, "description": "Labels of what is created."},
        "name": {"type": "string", "description": "Name of what is created, where it is used."},
        "namespace": {"type": "string", "description": "Namespace of what is created, where it is used."},
    },
}

_SCALARS: dict[str, Schema] = {
    "str": {"type": "string"},
    "int": {"type": "integer", "format": "int32"},
    "bool": {"type": "boolean"},
    "object": INT_OR_STRING,
}
_QUANTITIES = frozenset({("V1EmptyDirVolumeSource", "sizeLimit"), ("V1ResourceFieldSelector", "divisor")})
_RESOURCE_LISTS = frozenset({
    ("V1PodSpec", "overhead"),
    ("V1ResourceRequirements", "limits"), ("V1ResourceRequirements", "requests"),
    ("V1VolumeResourceRequirements", "limits"), ("V1VolumeResourceRequirements", "requests"),
})  # fmt: skip
_INT64 = frozenset({
    "activeDeadlineSeconds", "expirationSeconds", "fsGroup", "runAsGroup", "runAsUser", "supplementalGroups", "seconds",
    "terminationGracePeriodSeconds", "tolerationSeconds",
})  # fmt: skip
_MAP_LISTS: dict[tuple[str, str], tuple[str, ...]] = {
    ("V1PodSpec", "containers"): ("name",),
    ("V1PodSpec", "ephemeralContainers"): ("name",),
    ("V1PodSpec", "hostAliases"): ("ip",),
    ("V1PodSpec", "imagePullSecrets"): ("name",),
    ("V1PodSpec", "initContainers"): ("name",),
    ("V1PodSpec", "resourceClaims"): ("name",),
    ("V1PodSpec", "schedulingGates"): ("name",),
    ("V1PodSpec", "topologySpreadConstraints"): ("topologyKey", "whenUnsatisfiable"),
    ("V1PodSpec", "volumes"): ("name",),
    ("V1Container", "env"): ("name",),
    ("V1Container", "ports"): ("containerPort", "protocol"),
    ("V1Container", "volumeDevices"): ("devicePath",),
    ("V1Container", "volumeMounts"): ("mountPath",),
    ("V1EphemeralContainer", "env"): ("name",),
    ("V1EphemeralContainer", "ports"): ("containerPort", "protocol"),
    ("V1EphemeralContainer", "volumeDevices"): ("devicePath",),
    ("V1EphemeralContainer", "volumeMounts"): ("mountPath",),
    ("V1ResourceRequirements", "claims"): ("name",),
}
_KEY_DEFAULTS: dict[tuple[str, str], str] = {
    ("V1ContainerPort", "protocol"): "TCP",
    ("V1LocalObjectReference", "name"): "",
}
"""Defaults of the keys of map lists, which must be required or have a default; the API declares these optional."""
_ATOMIC = frozenset({
    "V1ConfigMapKeySelector", "V1FileKeySelector", "V1LabelSelector", "V1LocalObjectReference", "V1NodeSelector",
    "V1NodeSelectorTerm", "V1ObjectFieldSelector", "V1ResourceFieldSelector", "V1SecretKeySelector",
    "V1TypedLocalObjectReference",
})  # fmt: skip
_ABOUT: dict[str, str] = {
    "V1AWSElasticBlockStoreVolumeSource": "Disk of AWS Elastic Block Store.",
    "V1Affinity": "Nodes and other pods that the pod should be near to or away from.",
    "V1AppArmorProfile": "AppArmor profile of the containers.",
    "V1AzureDiskVolumeSource": "Azure data disk.",
    "V1AzureFileVolumeSource": "Azure file share.",
    "V1CSIVolumeSource": "Volume of a CSI driver that lives as long as the pod.",
    "V1Capabilities": "Linux capabilities that are added and dropped.",
    "V1CephFSVolumeSource": "Ceph file system.",
    "V1CinderVolumeSource": "OpenStack Cinder volume.",
    "V1ClusterTrustBundleProjection": "Certificates of ClusterTrustBundles as a file.",
    "V1ConfigMapEnvSource": "ConfigMap whose entries become variables.",
    "V1ConfigMapKeySelector": "Entry of a ConfigMap.",
    "V1ConfigMapProjection": "Entries of a ConfigMap as files.",
    "V1ConfigMapVolumeSource": "Entries of a ConfigMap as files.",
    "V1ContainerRestartRuleOnExitCodes": "Exit codes that the rule is about.",
    "V1DownwardAPIProjection": "Fields of the pod as files.",
    "V1DownwardAPIVolumeSource": "Fields of the pod as files.",
    "V1EmptyDirVolumeSource": "Empty directory that lives as long as the pod.",
    "V1EnvVarSource": "Where the value comes from.",
    "V1EphemeralVolumeSource": "Claim that is created for the pod and lives as long.",
    "V1ExecAction": "Command that is run in the container.",
    "V1FCVolumeSource": "Fibre Channel disk.",
    "V1FileKeySelector": "Entry of a file in a volume.",
    "V1FlexVolumeSource": "Volume of a FlexVolume driver.",
    "V1FlockerVolumeSource": "Flocker data set.",
    "V1GCEPersistentDiskVolumeSource": "Disk of Google Compute Engine.",
    "V1GRPCAction": "Call of the gRPC health service.",
    "V1GitRepoVolumeSource": "Git repository; no longer supported.",
    "V1GlusterfsVolumeSource": "Gluster file system.",
    "V1HTTPGetAction": "HTTP GET request.",
    "V1HostPathVolumeSource": "File or directory of the node.",
    "V1ISCSIVolumeSource": "iSCSI disk.",
    "V1ImageVolumeSource": "Content of an OCI image or artifact.",
    "V1LabelSelector": "Selects objects by labels.",
    "V1Lifecycle": "What is done after the container has started and before it stops.",
    "V1LifecycleHandler": "What is done then.",
    "V1LocalObjectReference": "Secret with credentials.",
    "V1NFSVolumeSource": "NFS export.",
    "V1NodeAffinity": "Labels of nodes that the pod requires or prefers.",
    "V1NodeSelector": "Terms of which the node must satisfy one.",
    "V1NodeSelectorTerm": "Requirements that the node satisfies.",
    "V1ObjectFieldSelector": "Field of the pod.",
    "V1ObjectMeta": "Metadata of what is created.",
    "V1PersistentVolumeClaimSpec": "Specification of the claim.",
    "V1PersistentVolumeClaimTemplate": "Template of the claim.",
    "V1PersistentVolumeClaimVolumeSource": "PersistentVolumeClaim of the pod's namespace.",
    "V1PhotonPersistentDiskVolumeSource": "Photon Controller disk.",
    "V1PodAffinity": "Pods that the pod should be near to.",
    "V1PodAffinityTerm": "Which pods, and what near means.",
    "V1PodAntiAffinity": "Pods that the pod should be away from.",
    "V1PodCertificateProjection": "Private key and certificate of the pod as files.",
    "V1PodDNSConfig": "DNS settings of the pod beside its policy.",
    "V1PodOS": "Operating system of the containers.",
    "V1PodSchedulingGroup": "Scheduling group of the pod.",
    "V1PodSecurityContext": "Security settings of all containers.",
    "V1PodSpec": "Specification of the pod.",
    "V1PortworxVolumeSource": "Portworx volume.",
    "V1Probe": "How it is found out whether the container is well.",
    "V1ProjectedVolumeSource": "Several sources in one directory.",
    "V1QuobyteVolumeSource": "Quobyte volume.",
    "V1RBDVolumeSource": "Rados block device.",
    "V1ResourceFieldSelector": "Resource of a container.",
    "V1ResourceRequirements": "Amounts that are requested, and limits.",
    "V1SELinuxOptions": "SELinux label.",
    "V1ScaleIOVolumeSource": "ScaleIO volume.",
    "V1SeccompProfile": "Seccomp profile.",
    "V1SecretEnvSource": "Secret whose entries become variables.",
    "V1SecretKeySelector": "Entry of a Secret.",
    "V1SecretProjection": "Entries of a Secret as files.",
    "V1SecretVolumeSource": "Entries of a Secret as files.",
    "V1SecurityContext": "Security settings of the container.",
    "V1ServiceAccountTokenProjection": "Token of the service account as a file.",
    "V1SleepAction": "Time to wait.",
    "V1StorageOSVolumeSource": "StorageOS volume.",
    "V1TCPSocketAction": "TCP connection.",
    "V1TypedLocalObjectReference": "Object of the same namespace that the volume is filled from.",
    "V1TypedObjectReference": "Object that the volume is filled from.",
    "V1VolumeResourceRequirements": "Amount of storage that is requested, and its limit.",
    "V1VsphereVirtualDiskVolumeSource": "vSphere disk.",
    "V1WindowsSecurityContextOptions": "Security settings on Windows.",
}
"""Descriptions of fields of these types, for which the models have none."""
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z])|\s+(?=More info)")
_LIST = re.compile(r"^list\[(.+)\]$")
_MAP = re.compile(r"^dict\(str, (.+)\)$")


def _required(model: type[Any], attribute: str) -> bool:
    """Return whether the model refuses None for the attribute, which is how the generated code marks `required`."""
    probe: Any = object.__new__(model)
    probe.local_vars_configuration = SimpleNamespace(client_side_validation=True)
    try:
        setattr(probe, attribute, None)
    except ValueError as error:
        return "must not be `None`" in str(error)
    return False


def _description(model: type[Any], attribute: str, type_name: str) -> str:
    """Return the first sentence of the model's text about an attribute, or the description of its type."""
    _, _, text = (getattr(model, attribute).fget.__doc__ or "").partition("\n")
    words = text.partition(":return:")[0].replace("# noqa: E501", "").split()
    return _ABOUT[type_name] if not words else _SENTENCE.split(" ".join(words), maxsplit=1)[0]


def _field(owner: str, name: str, type_name: str) -> Schema:
    if (owner, name) in _QUANTITIES:
        return QUANTITY
    if (owner, name) in _RESOURCE_LISTS:
        return RESOURCE_LIST
    schema = _typed(type_name, wide=name in _INT64)
    if keys := _MAP_LISTS.get((owner, name)):
        schema = {**schema, "x-kubernetes-list-map-keys": list(keys), "x-kubernetes-list-type": "map"}
    if (default := _KEY_DEFAULTS.get((owner, name))) is not None:
        schema = {**schema, "default": default}
    return schema


def _typed(type_name: str, *, wide: bool = False) -> Schema:
    if wide and type_name == "int":
        return {"type": "integer", "format": "int64"}
    if type_name in _SCALARS:
        return _SCALARS[type_name]
    if match := _LIST.match(type_name):
        return {"type": "array", "items": _typed(match[1], wide=wide)}
    if match := _MAP.match(type_name):
        return {"type": "object", "additionalProperties": _typed(match[1])}
    return _model(type_name)


@cache
def _model(name: str) -> Schema:
    if name == "V1ObjectMeta":
        return EMBEDDED_METADATA
    model = getattr(models, name)
    properties = {
        json_name: {
            "description": _description(model, attribute, model.openapi_types[attribute]),
            **_field(name, json_name, model.openapi_types[attribute]),
        }
        for attribute, json_name in model.attribute_map.items()
    }
    required = sorted(json_name for attribute, json_name in model.attribute_map.items() if _required(model, attribute))
    schema: Schema = {"type": "object", "properties": dict(sorted(properties.items()))}
    if required:
        schema["required"] = required
    if name in _ATOMIC:
        schema["x-kubernetes-map-type"] = "atomic"
    return schema


def pod_template() -> Schema:
    """Return PodTemplateSpec; `containers` is the one required field of its spec."""
    return _model("V1PodTemplateSpec")


def claim_spec() -> Schema:
    """Return PersistentVolumeClaimSpec."""
    return _model("V1PersistentVolumeClaimSpec")


def label_selector() -> Schema:
    """Return LabelSelector."""
    return _model("V1LabelSelector")
