"""Validation of pods and pod templates (Kubernetes: pkg/apis/core/validation, ValidatePodTemplateSpec)."""

from typing import Any

from volcanoio.model.base import Manifest
from volcanoio.model.validation.containers import container_errors
from volcanoio.model.validation.dns_names import (
    annotation_errors,
    label_errors,
    label_rule,
    qualified_rule,
    subdomain_rule,
)
from volcanoio.model.validation.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_found,
    required,
    unsupported,
)
from volcanoio.model.validation.placement import affinity_errors, spread_errors, toleration_errors

RESTART_POLICIES = ("Always", "OnFailure", "Never")
DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_ENUMS = {
    "restartPolicy": RESTART_POLICIES,
    "dnsPolicy": DNS_POLICIES,
    "preemptionPolicy": ("PreemptLowerPriority", "Never"),
}
_SUBDOMAINS = ("nodeName", "serviceAccountName", "priorityClassName", "schedulerName", "runtimeClassName")
_LABELS = ("hostname", "subdomain")
_INTEGERS = {"terminationGracePeriodSeconds": (0, 2**63 - 1), "activeDeadlineSeconds": (1, 2**31 - 1)}
_REFERENCES = {"configMap": "name", "secret": "secretName", "persistentVolumeClaim": "claimName", "hostPath": "path"}
"""Required name of each volume source."""


def validate_pod_template(template: Manifest, path: str) -> list[str]:
    """Return the errors of a pod template, each as `path: rule`; empty if it is valid."""
    return [str(error) for error in pod_template_errors(template, path)]


def pod_template_errors(template: Any, path: str) -> list[FieldError]:
    """Return the errors of a pod template at `path`."""
    if not isinstance(template, dict):
        return [required(path)]
    metadata = template.get("metadata")
    errors: list[FieldError] = []
    if isinstance(metadata, dict):
        errors += label_errors(metadata.get("labels"), f"{path}.metadata.labels")
        errors += annotation_errors(metadata.get("annotations"), f"{path}.metadata.annotations")
    if not isinstance(spec := template.get("spec"), dict):
        return [*errors, required(f"{path}.spec")]
    return errors + pod_spec_errors(spec, f"{path}.spec")


def pod_spec_errors(spec: Manifest, path: str) -> list[FieldError]:
    """Return the errors of a pod's spec at `path`."""
    errors: list[FieldError] = []
    volumes = _volume_errors(spec.get("volumes"), f"{path}.volumes", errors)
    errors += _container_list_errors(spec, path, volumes)
    if spec.get("ephemeralContainers"):
        errors.append(forbidden(f"{path}.ephemeralContainers", "cannot be set on create"))
    errors += _plain_field_errors(spec, path)
    errors += label_errors(spec.get("nodeSelector"), f"{path}.nodeSelector")
    if tolerations := spec.get("tolerations"):
        errors += toleration_errors(tolerations, f"{path}.tolerations")
    if affinity := spec.get("affinity"):
        errors += affinity_errors(affinity, f"{path}.affinity")
    if constraints := spec.get("topologySpreadConstraints"):
        errors += spread_errors(constraints, f"{path}.topologySpreadConstraints")
    if gates := spec.get("schedulingGates"):
        errors += _gate_errors(gates, f"{path}.schedulingGates")
    if isinstance(group := spec.get("schedulingGroup"), dict):
        errors += _group_errors(group.get("podGroupName"), f"{path}.schedulingGroup.podGroupName")
    return errors


def _group_errors(name: Any, path: str) -> list[FieldError]:
    """Return the error of the name of a pod's native PodGroup."""
    if name is None:
        return [invalid(path, None, "must specify one of: `podGroupName`")]
    return [invalid(path, name, rule)] if (rule := subdomain_rule(str(name))) else []


def _container_list_errors(spec: Manifest, path: str, volumes: set[str]) -> list[FieldError]:
    errors: list[FieldError] = []
    names: set[str] = set()
    if not spec.get("containers"):
        errors.append(required(f"{path}.containers"))
    for field in ("containers", "initContainers"):
        containers = spec.get(field) or ()
        if not isinstance(containers, list | tuple):
            errors.append(invalid(f"{path}.{field}", containers, "must be a list of containers"))
            continue
        for at, container in enumerate(containers):
            errors += _one_container(container, f"{path}.{field}[{at}]", names, volumes)
    return errors


def _one_container(container: Any, path: str, names: set[str], volumes: set[str]) -> list[FieldError]:
    if not isinstance(container, dict):
        return [invalid(path, container, "must be a container")]
    errors = container_errors(container, path)
    if isinstance(name := container.get("name"), str) and name:
        if name in names:
            errors.append(duplicate(f"{path}.name", name))
        names.add(name)
    mounts = container.get("volumeMounts")
    for at, mount in enumerate(mounts if isinstance(mounts, list) else ()):
        if isinstance(mount, dict) and mount.get("name") and str(mount["name"]) not in volumes:
            errors.append(not_found(f"{path}.volumeMounts[{at}].name", mount["name"]))
    return errors


def _plain_field_errors(spec: Manifest, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for field, values in _ENUMS.items():
        if (value := spec.get(field)) and value not in values:
            errors.append(unsupported(f"{path}.{field}", value, values))
    for fields, check in ((_SUBDOMAINS, subdomain_rule), (_LABELS, label_rule)):
        errors += [
            invalid(f"{path}.{field}", value, rule)
            for field in fields
            if (value := spec.get(field)) and (rule := check(str(value)))
        ]
    for field, (least, most) in _INTEGERS.items():
        value = spec.get(field)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most):
            rule = (
                "must be greater than or equal to 0" if least == 0 else f"must be between {least} and {most}, inclusive"
            )
            errors.append(invalid(f"{path}.{field}", value, rule))
    return errors


def _volume_errors(volumes: Any, path: str, errors: list[FieldError]) -> set[str]:
    """Add the errors of the volumes; returns their names."""
    if not volumes:
        return set()
    if not isinstance(volumes, list):
        errors.append(invalid(path, volumes, "must be a list of volumes"))
        return set()
    names: set[str] = set()
    for at, volume in enumerate(volumes):
        where = f"{path}[{at}]"
        name = volume.get("name") if isinstance(volume, dict) else None
        if not name:
            errors.append(required(f"{where}.name"))
            continue
        if rule := label_rule(str(name)):
            errors.append(invalid(f"{where}.name", name, rule))
        if str(name) in names:
            errors.append(duplicate(f"{where}.name", name))
        names.add(str(name))
        sources = [key for key, value in volume.items() if key != "name" and value is not None]
        if len(sources) > 1:
            errors.append(forbidden(f"{where}.{sources[1]}", "may not specify more than 1 volume type"))
        for source in sources:
            key = _REFERENCES.get(source)
            if key is not None and not (isinstance(volume[source], dict) and volume[source].get(key)):
                errors.append(required(f"{where}.{source}.{key}"))
    return names


def _gate_errors(gates: Any, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    names: set[str] = set()
    for at, gate in enumerate(gates if isinstance(gates, list) else ()):
        name = gate.get("name") if isinstance(gate, dict) else None
        if not name:
            errors.append(required(f"{path}[{at}].name"))
        elif rule := qualified_rule(str(name)):
            errors.append(invalid(f"{path}[{at}]", name, rule))
        elif name in names:
            errors.append(duplicate(f"{path}[{at}]", name))
        names.add(str(name))
    return errors
