"""Match conditions: CEL expressions that must all be true before a webhook is called.

Variables: `object`, `oldObject` (null where there is none) and `request` (the AdmissionReview's request without the
objects). Kubernetes: apiserver `pkg/admission/plugin/webhook/matchconditions`. There is no `authorizer`, since this
server authorises every authenticated user.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from volcanoio.localcluster.apiserver.admission.webhooks.attributes import Attributes
from volcanoio.localcluster.apiserver.admission.webhooks.configuration import Hook
from volcanoio.localcluster.apiserver.admission.webhooks.review import request_fields
from volcanoio.localcluster.apiserver.apimachinery import errors
from volcanoio.localcluster.apiserver.apimachinery.request import current_user
from volcanoio.model.cel import DYN, CompileError, EvaluationError, Program, compile_expression
from volcanoio.model.cel.types import BOOL, STRING, Field, Type, list_of, map_of, object_of

BUDGET: Final = 2_500_000
"""Total cost limit of all conditions of one webhook (a quarter of Kubernetes' budget of a request)."""


def _object(kind: str, /, **fields: Type) -> Type:
    return object_of(f"kubernetes.{kind}", {key: Field(key, type_) for key, type_ in fields.items()})


_KIND: Final = _object("GroupVersionKind", group=STRING, version=STRING, kind=STRING)
_RESOURCE: Final = _object("GroupVersionResource", group=STRING, version=STRING, resource=STRING)
_USER: Final = _object(
    "UserInfo",
    username=STRING,
    uid=STRING,
    groups=list_of(STRING),
    extra=map_of(STRING, list_of(STRING)),
)
_REQUEST: Final = _object(
    "AdmissionRequest",
    kind=_KIND,
    resource=_RESOURCE,
    subResource=STRING,
    requestKind=_KIND,
    requestResource=_RESOURCE,
    requestSubResource=STRING,
    name=STRING,
    namespace=STRING,
    operation=STRING,
    userInfo=_USER,
    dryRun=BOOL,
    options=DYN,
)
_VARIABLES: Final = {"object": DYN, "oldObject": DYN, "request": _REQUEST}


@lru_cache(maxsize=1024)
def _program(expression: str) -> Program:
    return compile_expression(expression, _VARIABLES)


def expression_rule(expression: str) -> str:
    """Return the reason why a condition's expression is invalid; empty when it is valid."""
    try:
        program = _program(expression)
    except CompileError as error:
        return f"compilation failed: {error}"
    return "" if program.type == BOOL else f"must evaluate to bool but got {program.type}"


def conditions_hold(hook: Hook, shown: Attributes, asked: Attributes) -> bool:
    """Return whether all conditions are true.

    One that is false decides, whatever errors others have.

    An error fails the write (ApiError 403) or skips the webhook, depending on its failure policy.
    """
    bindings = {
        "object": shown.object,
        "oldObject": shown.old,
        "request": request_fields(shown, asked, current_user()),
    }
    problems: list[str] = []
    budget = [BUDGET]
    for condition in hook.match_conditions:
        expression = condition.expression.strip()
        try:
            if _program(expression).evaluate(bindings, budget) is False:
                return False
        except (EvaluationError, CompileError) as error:
            problems.append(f"expression '{expression}' resulted in error: {error}")
    if not problems:
        return True
    if hook.ignores_failures:
        return False
    text = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
    raise errors.forbidden(asked.resource, asked.name, text)
