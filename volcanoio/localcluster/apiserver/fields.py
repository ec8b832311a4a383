"""What is wrong with a field of an object, with Kubernetes' reasons and texts (apimachinery `field.Error`)."""

from __future__ import annotations

from collections.abc import Iterable

from volcanoio.engine.admission.fielderrors import FieldError

__all__ = ["FieldError", "causes", "summary"]


def causes(errors: Iterable[FieldError]) -> list[dict[str, str]]:
    """`Status.details.causes[]`."""
    return [{"reason": error.reason, "message": error.message, "field": error.field} for error in errors]


def summary(errors: Iterable[FieldError]) -> str:
    """One line: a single error as it is, several in brackets."""
    texts = list(dict.fromkeys(str(error) for error in errors))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
