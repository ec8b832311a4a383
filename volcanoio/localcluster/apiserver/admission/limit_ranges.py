"""LimitRanger: default amounts for containers, and the bounds of a namespace's LimitRanges.

Kubernetes: plugin/pkg/admission/limitranger. Bounds are compared in thousandths.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from volcanoio.localcluster.apiserver.admission.resource_amounts import ZERO, Amount, Amounts, amounts, pod_amounts
from volcanoio.localcluster.apiserver.apimachinery import errors
from volcanoio.localcluster.apiserver.apimachinery.objects import Event, Ref
from volcanoio.localcluster.apiserver.apimachinery.served_resources import Registry
from volcanoio.localcluster.apiserver.storage.store import Store
from volcanoio.model.base import Manifest

_NAME: Final = "limitranges"
_ANNOTATION: Final = "kubernetes.io/limit-ranger"
_CONTAINERS: Final = (("containers", "container"), ("initContainers", "init container"))


class LimitRanges:
    """LimitRanges by namespace; a namespace without any costs one lookup."""

    def __init__(self, store: Store, registry: Registry) -> None:
        self._store = store
        self._registry = registry
        self._found: dict[str, list[Manifest]] = {}
        for namespace in {namespace for namespace, _ in store.collection(_NAME).objects}:
            self._load(namespace)
        store.on(_NAME, self._changed)

    def apply_to(self, namespace: str) -> bool:
        """Return whether a namespace has LimitRanges."""
        return namespace in self._found

    def _changed(self, ref: Ref, event: Event) -> None:
        del event
        self._load(ref.namespace)

    def _load(self, namespace: str) -> None:
        objects = self._store.collection(_NAME).objects
        found = [one.decode() for (where, _), one in sorted(objects.items()) if where == namespace]
        if found:
            self._found[namespace] = found
        else:
            self._found.pop(namespace, None)

    def default_pod(self, pod: Manifest, namespace: str) -> None:
        """Set missing requests and limits of a pod's containers, and record that in an annotation."""
        for limit_range in self._found.get(namespace, ()):
            default: Manifest = {}
            request: Manifest = {}
            for limit in _limits(limit_range, "Container"):
                default |= limit.get("default") or {}
                request |= limit.get("defaultRequest") or {}
            defaulted = [
                text
                for field, label in _CONTAINERS
                for container in pod["spec"].get(field) or ()
                for text in _merge(container, default, request, label)
            ]
            if defaulted:
                metadata = pod["metadata"]
                text = f"LimitRanger plugin set: {'; '.join(defaulted)}"
                metadata["annotations"] = {**(metadata.get("annotations") or {}), _ANNOTATION: text}

    def check_pod(self, pod: Manifest, namespace: str) -> None:
        """Raise ApiError 403 for a pod outside the limits."""
        for limit_range in self._found.get(namespace, ()):
            self._refuse("pods", pod, [*_container_problems(limit_range, pod), *_pod_problems(limit_range, pod)])

    def check_claim(self, claim: Manifest, namespace: str) -> None:
        """Raise ApiError 403 for a claim outside the limits."""
        for limit_range in self._found.get(namespace, ()):
            requests = amounts(((claim["spec"].get("resources") or {}).get("requests")) or {})
            problems: list[str] = []
            for limit in _limits(limit_range, "PersistentVolumeClaim"):
                problems += _below(limit, "PersistentVolumeClaim", requests, {})
                problems += _requests_above(limit, "PersistentVolumeClaim", requests)
            self._refuse("persistentvolumeclaims", claim, problems)

    def _refuse(self, resource: str, obj: Manifest, problems: list[str]) -> None:
        if problems:
            found = list(dict.fromkeys(problems))
            text = found[0] if len(found) == 1 else f"[{', '.join(found)}]"
            raise errors.forbidden(self._registry.builtin(resource), obj["metadata"].get("name", ""), text)


def _limits(limit_range: Manifest, type_: str) -> Iterator[Manifest]:
    return (one for one in limit_range["spec"].get("limits") or () if one.get("type") == type_)


def _merge(container: Manifest, limits: Manifest, requests: Manifest, label: str) -> list[str]:
    resources = container.setdefault("resources", {})
    defaulted = []
    for what, defaults, word in (("requests", requests, "request"), ("limits", limits, "limit")):
        missing = sorted(name for name in defaults if name not in (resources.get(what) or {}))
        if missing:
            resources[what] = {**(resources.get(what) or {}), **{name: defaults[name] for name in missing}}
            defaulted.append(f"{', '.join(missing)} {word} for {label} {container.get('name', '')}")
    return defaulted


def _container_problems(limit_range: Manifest, pod: Manifest) -> Iterator[str]:
    for limit in _limits(limit_range, "Container"):
        for field, _ in _CONTAINERS:
            for container in pod["spec"].get(field) or ():
                resources = container.get("resources") or {}
                yield from _out_of_bounds(
                    limit, "Container", amounts(resources.get("requests")), amounts(resources.get("limits"))
                )


def _pod_problems(limit_range: Manifest, pod: Manifest) -> Iterator[str]:
    for limit in _limits(limit_range, "Pod"):
        requests, limits = pod_amounts(pod["spec"], "requests"), pod_amounts(pod["spec"], "limits")
        yield from _out_of_bounds(limit, "Pod", requests, limits)


def _out_of_bounds(limit: Manifest, type_: str, requests: Amounts, limits: Amounts) -> Iterator[str]:
    yield from _below(limit, type_, requests, limits)
    yield from _above(limit, type_, requests, limits)
    yield from _ratio(limit, type_, requests, limits)


def _bounds(limit: Mapping[str, Any], field: str) -> list[tuple[str, Amount]]:
    return sorted(amounts(limit.get(field)).items())


def _below(limit: Manifest, type_: str, requests: Amounts, limits: Amounts) -> Iterator[str]:
    for name, bound in _bounds(limit, "min"):
        rule = f"minimum {name} usage per {type_} is {bound}"
        request, stated = requests.get(name), limits.get(name)
        if request is None:
            yield f"{rule}.  No request is specified"
        elif request.value < bound.value:
            yield f"{rule}, but request is {request}"
        elif stated is not None and stated.value < bound.value:
            yield f"{rule}, but limit is {stated}"


def _above(limit: Manifest, type_: str, requests: Amounts, limits: Amounts) -> Iterator[str]:
    for name, bound in _bounds(limit, "max"):
        rule = f"maximum {name} usage per {type_} is {bound}"
        request, stated = requests.get(name), limits.get(name)
        if stated is None:
            yield f"{rule}.  No limit is specified"
        elif stated.value > bound.value:
            yield f"{rule}, but limit is {stated}"
        elif request is not None and request.value > bound.value:
            yield f"{rule}, but request is {request}"


def _requests_above(limit: Manifest, type_: str, requests: Amounts) -> Iterator[str]:
    for name, bound in _bounds(limit, "max"):
        rule = f"maximum {name} usage per {type_} is {bound}"
        request = requests.get(name)
        if request is None:
            yield f"{rule}.  No request is specified"
        elif request.value > bound.value:
            yield f"{rule}, but request is {request}"


def _ratio(limit: Manifest, type_: str, requests: Amounts, limits: Amounts) -> Iterator[str]:
    for name, bound in _bounds(limit, "maxLimitRequestRatio"):
        rule = f"{name} max limit to request ratio per {type_} is {bound}"
        request, stated = requests.get(name, ZERO).value, limits.get(name, ZERO).value
        if not request:
            yield f"{rule}, but no request is specified or request is 0"
        elif not stated:
            yield f"{rule}, but no limit is specified or limit is 0"
        elif stated / request > bound.value:
            yield f"{rule}, but provided ratio is {float(stated / request):f}"
