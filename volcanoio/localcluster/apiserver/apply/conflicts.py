"""Conflicts: fields that an applied configuration would change although others manage them."""

from __future__ import annotations

from collections.abc import Mapping

from volcanoio.localcluster.apiserver.apply import fieldset
from volcanoio.localcluster.apiserver.apply.fieldset import FieldSet
from volcanoio.localcluster.apiserver.apply.owners import Owner
from volcanoio.localcluster.apiserver.errors import ApiError
from volcanoio.localcluster.apiserver.objects import encode


class Conflicts(Exception):  # noqa: N818 - named for what they are
    """The fields in conflict, by who manages them."""

    def __init__(self, fields: Mapping[Owner, FieldSet]) -> None:
        super().__init__("conflicts")
        self.fields = dict(fields)

    def without(self, allowed: FieldSet) -> Conflicts:
        """The conflicts over other fields than these."""
        left = {owner: fieldset.difference(fields, allowed) for owner, fields in self.fields.items()}
        return Conflicts({owner: fields for owner, fields in left.items() if fields})

    def refusal(self) -> ApiError:
        """The 409 that names every field and its manager (texts: apimachinery `managedfields`)."""
        named = [(described(owner), owner) for owner in sorted(self.fields, key=_identity)]
        found = [(name, fieldset.shown(path)) for name, owner in named for path in fieldset.paths(self.fields[owner])]
        causes = [
            {"reason": "FieldManagerConflict", "message": f"conflict with {name}", "field": path}
            for name, path in found
        ]
        if len(found) == 1:
            message = f"Apply failed with 1 conflict: conflict with {found[0][0]}: {found[0][1]}"
        else:
            lines = []
            for name, _ in named:
                lines += [f"conflicts with {name}:", *(f"- {path}" for other, path in found if other == name)]
            message = f"Apply failed with {len(found)} conflicts: " + "\n".join(lines)
        return ApiError(409, "Conflict", message, {"causes": causes})


def _identity(owner: Owner) -> str:
    """What Kubernetes sorts managers by: their entries as JSON."""
    fields = {"manager": owner.manager, "operation": owner.operation, "apiVersion": owner.version}
    fields["subresource"] = owner.subresource
    return encode({key: value for key, value in fields.items() if value}).decode()


def described(owner: Owner) -> str:
    """A manager as conflicts name it: updates with their version."""
    text = f'"{owner.manager}"'
    if owner.subresource:
        text += f' with subresource "{owner.subresource}"'
    return f"{text} using {owner.version}" if owner.operation == "Update" else text
