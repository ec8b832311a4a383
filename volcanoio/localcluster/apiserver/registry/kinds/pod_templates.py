"""Pod specs and pod templates: defaults, rules, and the selector that goes with a template.

Defaults: Kubernetes' pkg/apis/core/v1/defaults.go and helper/qos.
"""

from __future__ import annotations

from typing import Any, Final

from volcanoio.localcluster.apiserver.apimachinery.selectors import matches_label_selector
from volcanoio.localcluster.apiserver.registry.kinds.rules import at, child, label_selector_errors
from volcanoio.model.base import Manifest
from volcanoio.model.quantity import QuantityError, canonical
from volcanoio.model.validation.field_errors import FieldError, forbidden, invalid, required, unsupported
from volcanoio.model.validation.pod_template import pod_template_errors

_SPEC: Final = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
}
_CONTAINER: Final = {"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}
_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_PROBE: Final = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
_MODES: Final = {"configMap": 420, "secret": 420, "projected": 420, "downwardAPI": 420}


def default_pod_spec(spec: Manifest, *, of_pod: bool = False) -> None:
    """Set missing fields of a pod spec; in templates requests and service links are left out."""
    if of_pod and spec.get("enableServiceLinks") is None:
        spec["enableServiceLinks"] = True
    for key, value in _SPEC.items():
        if spec.get(key) is None:
            spec[key] = value
    grace = spec["terminationGracePeriodSeconds"]
    if type(grace) is int and grace < 0:
        spec["terminationGracePeriodSeconds"] = 1
    if spec.get("securityContext") is None:
        spec["securityContext"] = {}
    for field in ("containers", "initContainers"):
        for container in _listed(spec.get(field)):
            _default_container(container, fill_requests=of_pod)
            if spec.get("hostNetwork"):
                _default_host_ports(container)
    for volume in _listed(spec.get("volumes")):
        _default_volume(volume)


def _default_container(container: Manifest, *, fill_requests: bool) -> None:
    for key, value in _CONTAINER.items():
        if container.get(key) is None:
            container[key] = value
    image = container.get("image")
    if container.get("imagePullPolicy") is None and isinstance(image, str):
        container["imagePullPolicy"] = "Always" if _is_latest(image) else "IfNotPresent"
    _default_resources(container, fill_requests=fill_requests)
    for port in _listed(container.get("ports")):
        if port.get("protocol") is None:
            port["protocol"] = "TCP"
    for name in _PROBES:
        if isinstance(probe := container.get(name), dict):
            _default_probe(probe)
    for variable in _listed(container.get("env")):
        if "valueFrom" in variable:  # few have it, and pods have many variables
            _default_reference(variable["valueFrom"])


def _default_resources(container: Manifest, *, fill_requests: bool) -> None:
    resources = container.get("resources")
    if resources is None:
        container["resources"] = {}
    if not isinstance(resources, dict):
        return
    limits, requests = resources.get("limits"), resources.get("requests")
    for amounts in (limits, requests):
        if isinstance(amounts, dict):
            _canonicalise(amounts)
    if fill_requests and isinstance(limits, dict) and limits:
        if requests is None:
            resources["requests"] = dict(limits)
        elif isinstance(requests, dict):
            for name, amount in limits.items():
                requests.setdefault(name, amount)


def _default_probe(probe: Manifest) -> None:
    for key, value in _PROBE.items():
        if not probe.get(key):
            probe[key] = value
    request = probe.get("httpGet")
    if isinstance(request, dict) and not request.get("scheme"):
        request["scheme"] = "HTTP"


def _default_reference(holder: Any) -> None:
    """Set the apiVersion of a reference to a field of the pod."""
    reference = holder.get("fieldRef") if isinstance(holder, dict) else None
    if isinstance(reference, dict) and not reference.get("apiVersion"):
        reference["apiVersion"] = "v1"


def _default_host_ports(container: Manifest) -> None:
    for port in _listed(container.get("ports")):
        if not port.get("hostPort") and port.get("containerPort"):
            port["hostPort"] = port["containerPort"]


def _listed(items: Any) -> list[Manifest]:
    """Return the objects of a list; empty for other values."""
    return [one for one in items if isinstance(one, dict)] if isinstance(items, list) else []


def _canonicalise(amounts: Manifest) -> None:
    """Write quantities in canonical form; invalid ones are left for validation."""
    for name, amount in amounts.items():
        try:
            amounts[name] = canonical(amount)
        except (QuantityError, TypeError):
            continue


def _is_latest(image: str) -> bool:
    """Return whether an image has the tag latest, or neither tag nor digest."""
    if "@" in image:
        return False
    tag = image.rpartition("/")[2].partition(":")[2]
    return tag in {"", "latest"}


def _default_volume(volume: Manifest) -> None:
    if not any(value is not None for key, value in volume.items() if key != "name"):
        volume["emptyDir"] = {}
    for source, mode in _MODES.items():
        found = volume.get(source)
        if isinstance(found, dict):
            found.setdefault("defaultMode", mode)
    if isinstance(path := volume.get("hostPath"), dict):
        path.setdefault("type", "")
    if isinstance(downward := volume.get("downwardAPI"), dict):
        for item in _listed(downward.get("items")):
            _default_reference(item)


def quality_of_service(spec: Manifest) -> str:
    """Return the quality-of-service class.

    `BestEffort` without requests and limits, `Guaranteed` where cpu and memory requests equal limits everywhere.
    """
    any_set, guaranteed = False, True
    for field in ("containers", "initContainers"):
        containers = spec.get(field)
        for container in containers if isinstance(containers, list) else ():
            resources = container.get("resources") if isinstance(container, dict) else None
            resources = resources if isinstance(resources, dict) else {}
            limits, requests = _named(resources.get("limits")), _named(resources.get("requests"))
            any_set = any_set or bool(limits or requests)
            for name in ("cpu", "memory"):
                limit = limits.get(name)
                if limit is None or requests.get(name, limit) != limit:
                    guaranteed = False
    if not any_set:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def _named(amounts: Any) -> dict[str, Any]:
    return amounts if isinstance(amounts, dict) else {}


MISMATCH = "`selector` does not match template `labels`"


def default_template(spec: Manifest) -> None:
    """Set missing fields of a spec's template, which is created when it is missing."""
    template = child(spec, "template")
    child(template, "metadata")
    default_pod_spec(child(template, "spec"))


def labels_of(template: Any) -> dict[str, str]:
    """Return the labels of a template's pods."""
    labels = at(template, "metadata.labels") if isinstance(template, dict) else None
    return labels if isinstance(labels, dict) else {}


def is_selector(selector: Any) -> bool:
    """Return whether all requirements of a selector are well formed."""
    return not label_selector_errors(selector, "")


def matching_errors(selector: Any, template: Any, path: str) -> list[FieldError]:
    """Return errors of a well-formed selector that does not select the template's pods."""
    labels = labels_of(template)
    if not isinstance(selector, dict):
        return [invalid(f"{path}.metadata.labels", labels or None, MISMATCH)]
    if not is_selector(selector) or matches_label_selector(selector, labels):
        return []
    return [invalid(f"{path}.metadata.labels", labels or None, MISMATCH)]


def empty_errors(selector: Any, kind: str) -> list[FieldError]:
    """Return errors of an empty selector."""
    if not isinstance(selector, dict) or selector.get("matchLabels") or selector.get("matchExpressions"):
        return []
    return [invalid("spec.selector", selector, f"empty selector is invalid for {kind}")]


def lasting_errors(template: Any, path: str, kind: str) -> list[FieldError]:
    """Return errors of templates of long-running pods.

    restartPolicy is Always, and there is no deadline.
    """
    spec = template.get("spec") if isinstance(template, dict) else None
    spec = spec if isinstance(spec, dict) else {}
    found: list[FieldError] = []
    if spec.get("restartPolicy") not in {None, "Always"}:
        found.append(unsupported(f"{path}.spec.restartPolicy", spec["restartPolicy"], ("Always",)))
    if spec.get("activeDeadlineSeconds") is not None:
        where = f"{path}.spec.activeDeadlineSeconds"
        found.append(forbidden(where, f"activeDeadlineSeconds in {kind} is not Supported"))
    return found


def replicated_errors(spec: Manifest, kind: str, shown: str = "ReplicaSet") -> list[FieldError]:
    """Return errors of the selector and template of a replicated kind.

    `kind` is for the message.
    """
    selector, template = spec.get("selector"), spec.get("template")
    if not isinstance(selector, dict):
        found = [required("spec.selector")]
    else:
        found = label_selector_errors(selector, "spec.selector") + empty_errors(selector, kind)
    if isinstance(selector, dict) and not is_selector(selector):
        if shown == "ReplicaSet":
            return [*found, invalid("spec.selector", selector, "invalid label selector")]
        bare = invalid("spec.selector", selector, "")
        found.append(bare._replace(message=bare.message.removesuffix(": ")))
        return found + lasting_errors(template, "spec.template", shown)
    found += matching_errors(selector, template, "spec.template") if selector != {} else []
    found += pod_template_errors(template, "spec.template")
    return found + lasting_errors(template, "spec.template", shown)
