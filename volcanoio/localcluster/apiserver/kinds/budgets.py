"""PodDisruptionBudgets: what they may ask for (Kubernetes: pkg/apis/policy/validation)."""

from __future__ import annotations

import re
from typing import Any, Final

from volcanoio.engine.admission.fielderrors import FieldError, invalid, unsupported
from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.kinds.labelselectors import label_selector_errors
from volcanoio.localcluster.apiserver.kinds.strategy import Strategy
from volcanoio.model.base import Manifest

NAME: Final = "poddisruptionbudgets.policy"
_PERCENT = re.compile(r"[0-9]+%").fullmatch
_PERCENT_RULE: Final = (
    "a valid percent string must be a numeric string followed by an ending '%' "
    "(e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
)
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
            found += _amount_errors(f"spec.{field}", amount)
    policy = spec.get("unhealthyPodEvictionPolicy")
    if policy and policy not in _POLICIES:
        found.append(unsupported("spec.unhealthyPodEvictionPolicy", policy, _POLICIES))
    return found + label_selector_errors(spec.get("selector"), "spec.selector")


def _amount_errors(path: str, amount: Any) -> list[FieldError]:
    """The broken rules of a count or a percentage."""
    if isinstance(amount, str):
        if not _PERCENT(amount):
            return [invalid(path, amount, _PERCENT_RULE)]
        return [invalid(path, amount, "must not be greater than 100%")] if int(amount[:-1]) > 100 else []
    return [invalid(path, amount, "must be greater than or equal to 0")] if amount < 0 else []


BUDGETS = Strategy(create=_create, validate=_validate)
