"""Requirements of selectors: whether a label's value satisfies one, by Kubernetes' rules.

Sources: k8s.io/apimachinery/pkg/labels (Requirement.Matches), k8s.io/component-helpers/scheduling/corev1/nodeaffinity.
"""

from __future__ import annotations

from volcanoio.model.core import Requirement


def satisfied(requirement: Requirement, value: str | None) -> bool:
    """Whether a label's (or field's) value satisfies a requirement; None is a missing label.

    Gt and Lt, which selectors of nodes alone may have, compare whole numbers.
    """
    match requirement.operator:
        case "In":
            return value in requirement.values
        case "NotIn":
            return value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt" if value is not None and len(requirement.values) == 1:
            have, want = _integer(value), _integer(requirement.values[0])
            if have is None or want is None:
                return False
            return have > want if requirement.operator == "Gt" else have < want
    return False


def _integer(text: str) -> int | None:
    """The number a text is, None when it is none (Go's strconv.ParseInt: sign and digits, nothing else)."""
    digits = text.removeprefix("-") if text.startswith("-") else text.removeprefix("+")
    return int(text) if digits.isascii() and digits.isdigit() else None
