"""What a strict decoder finds in the body of a patch, whatever becomes of the object (`handlers/patch.go`)."""

from __future__ import annotations

from typing import Any, Final

from volcanoio.localcluster.apiserver.bodies import repeated_fields
from volcanoio.localcluster.apiserver.options import FieldValidation

_OPERATION: Final = frozenset({"op", "path", "from", "value"})


def patch_problems(body: bytes, patch: Any, validation: FieldValidation) -> tuple[str, ...]:
    """Keys that are there twice, and of the operations of a JSON patch those that they do not have."""
    repeated = repeated_fields(body, patch, validation)
    if not isinstance(patch, list):
        return tuple(repeated)
    unknown = (
        []
        if validation == "Ignore"
        else [
            f'unknown field "[{at}].{key}"'
            for at, operation in enumerate(patch)
            if isinstance(operation, dict)
            for key in operation
            if key not in _OPERATION
        ]
    )
    return tuple(f"json patch {one}" for one in repeated + unknown)
