"""PodDisruptionBudgets: what they may ask for (Kubernetes: pkg/apis/policy/validation)."""

from __future__ import annotations

from typing import Final

from volcanoio.engine.admission.fielderrors import FieldError, invalid, unsupported
from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.kinds.labelselectors import label_selector_errors
from volcanoio.localcluster.apiserver.kinds.rules import count_or_percent_errors, over_all_errors
from volcanoio.localcluster.apiserver.kinds.strategy import Strategy
from volcanoio.model.base import Manifest

NAME: Final = "poddisruptionbudgets.policy"
_POLICIES: Final = ("AlwaysAllow", "IfHealthyBudget")
_COUNTS: Final = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")


def _create(budget: Manifest, core: Core) -> None:
    del core
    budget["status"] = dict.fromkeys(_COUNTS, 0)


def _validate(budget: Manifest) -> list[FieldError]:
    spec = budget.get("spec") or {}
    found: list[FieldError] = []
    least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
    if least is not None and most is not None:
        found.append(invalid("spec", spec, "minAvailable and maxUnavailable cannot be both set"))
    for field, amount in (("minAvailable", least), ("maxUnavailable", most)):
        if amount is not None:
            found += count_or_percent_errors(amount, f"spec.{field}") + over_all_errors(amount, f"spec.{field}")
    policy = spec.get("unhealthyPodEvictionPolicy")
    if policy and policy not in _POLICIES:
        found.append(unsupported("spec.unhealthyPodEvictionPolicy", policy, _POLICIES))
    return found + label_selector_errors(spec.get("selector"), "spec.selector")


BUDGETS = Strategy(create=_create, validate=_validate)
