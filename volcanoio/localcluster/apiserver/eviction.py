"""Evictions, and the disruption budgets that may refuse them (Kubernetes: pkg/registry/core/pod/storage/eviction.go).

How many pods must be healthy is what the budget's controller says, or what the pods say where none has looked at the
budget as it is now; how many are healthy is counted at the moment of the eviction, so that no two use one chance.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final, Literal

import msgspec

from volcanoio.localcluster.apiserver import bodies, errors
from volcanoio.localcluster.apiserver.api import ApiRequest
from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.deleter import Deleter, check_preconditions
from volcanoio.localcluster.apiserver.objects import Stored, encode
from volcanoio.localcluster.apiserver.options import delete_options, dry_run
from volcanoio.localcluster.apiserver.paths import Target
from volcanoio.localcluster.apiserver.selection import Selection
from volcanoio.localcluster.apiserver.selectors import matches_label_selector
from volcanoio.model.base import Manifest

_BUDGETS: Final = "poddisruptionbudgets.policy"
_SUCCESS: Final = b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201}'


class _Meta(msgspec.Struct):
    name: str | None = None


class _Eviction(msgspec.Struct, rename="camel"):
    """`policy/v1 Eviction`."""

    api_version: Literal["policy/v1", "policy/v1beta1", ""] | None = None
    metadata: _Meta = msgspec.field(default_factory=_Meta)
    delete_options: Manifest | None = None


class Evictor:
    """Deletes pods as far as their budgets allow."""

    def __init__(self, core: Core, deleter: Deleter) -> None:
        self._core = core
        self._deleter = deleter

    async def evict(self, target: Target, request: ApiRequest) -> bytes:
        """Evict the pod; raises ApiError 429 when a budget does not allow it."""
        try:
            body = msgspec.convert(bodies.read(request), _Eviction)
        except msgspec.ValidationError as error:
            raise errors.bad_request(f"the body is not a policy/v1 Eviction object: {error}") from None
        if body.metadata.name != target.name:
            raise errors.bad_request("name in URL does not match name in Eviction object")
        pod = self._core.store.get(target.ref)
        if pod is None:
            raise errors.not_found(target.resource, target.name)
        obj = pod.decode()
        if _counts(obj):
            self._check_budgets(pod, obj)
        inner = ApiRequest("DELETE", request.path, body=encode(body.delete_options or {}))
        options = delete_options(inner)
        main = Target(target.resource, target.namespace, target.name)
        check_preconditions(main, pod, options)
        if dry_run(request) or options.dry_run:
            return _SUCCESS
        self._core.check_writable()
        self._tell(main, obj)
        await self._deleter.delete(main, replace(options, resource_version=""), webhooks=False)
        return _SUCCESS

    def _tell(self, target: Target, pod: Manifest) -> None:
        """Say in the pod's status why it goes; it has a new version from here on."""
        status = pod.setdefault("status", {})
        others = [one for one in status.get("conditions") or () if one.get("type") != "DisruptionTarget"]
        condition = {"type": "DisruptionTarget", "status": "True", "lastProbeTime": None}
        condition |= {"lastTransitionTime": self._core.now(), "reason": "EvictionByEvictionAPI"}
        status["conditions"] = [*others, condition | {"message": "Eviction API: evicting"}]
        self._core.store.put(target.ref, pod)

    def _check_budgets(self, pod: Stored, obj: Manifest) -> None:
        budgets = [
            one
            for stored in self._core.store.collection(_BUDGETS).select(Selection(pod.namespace))
            if matches_label_selector((one := stored.decode()).get("spec", {}).get("selector"), pod.labels)
        ]
        if len(budgets) > 1:
            text = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
            raise errors.ApiError(500, "InternalError", text)
        for budget in budgets:
            needed, healthy = self._needed_and_healthy(budget, pod.namespace)
            if not _is_ready(obj) and _lets_go(budget, needed, healthy):
                continue
            if healthy <= needed:
                name = budget["metadata"]["name"]
                message = f"The disruption budget {name} needs {needed} healthy pods and has {healthy} currently"
                cause = {"reason": "DisruptionBudget", "message": message}
                text = "Cannot evict pod as it would violate the pod's disruption budget."
                raise errors.too_many_requests(text, [cause])

    def _needed_and_healthy(self, budget: Manifest, namespace: str) -> tuple[int, int]:
        spec, status = budget["spec"], budget.get("status") or {}
        pods = [
            stored.decode()
            for stored in self._core.store.collection("pods").select(Selection(namespace))
            if matches_label_selector(spec.get("selector"), stored.labels)
        ]
        living = [pod for pod in pods if (pod.get("status") or {}).get("phase") not in {"Succeeded", "Failed"}]
        healthy = sum(_is_ready(pod) and not pod["metadata"].get("deletionTimestamp") for pod in living)
        if status.get("observedGeneration", 0) >= budget["metadata"].get("generation", 1):
            return int(status.get("desiredHealthy") or 0), healthy
        if spec.get("maxUnavailable") is not None:
            return len(living) - _scaled(spec["maxUnavailable"], len(living)), healthy
        return _scaled(spec.get("minAvailable", 1), len(living)), healthy


def _lets_go(budget: Manifest, needed: int, healthy: int) -> bool:
    """Whether a pod that is not healthy may go at no cost to the budget."""
    return budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow" or healthy >= needed > 0


def _scaled(amount: Any, total: int) -> int:
    """A count, or a percentage of the total rounded up."""
    if isinstance(amount, str) and amount.endswith("%"):
        return -(-total * int(amount[:-1]) // 100)
    return int(amount)


def _is_ready(pod: Manifest) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)


def _counts(pod: Manifest) -> bool:
    """Whether evicting the pod disturbs anybody: not when it is over, unplaced or going anyway."""
    phase = (pod.get("status") or {}).get("phase")
    return phase not in {"Succeeded", "Failed", "Pending"} and not pod["metadata"].get("deletionTimestamp")
