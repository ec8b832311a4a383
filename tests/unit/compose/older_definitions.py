"""Our CustomResourceDefinitions as Volcano had them before validation was added."""

from __future__ import annotations

import copy
from typing import Any

from volcanoio.model.base import Manifest

RULES = (
    "enum",
    "minimum",
    "maximum",
    "maxLength",
    "minLength",
    "pattern",
    "format",
    "x-kubernetes-validations",
    "minItems",
)
"""Validation that Volcano's definitions gained over the years; older ones have none of it."""


def older(definition: Manifest) -> Manifest:
    """Return a definition as Volcano had it before validation was added."""
    found = copy.deepcopy(definition)

    def strip(schema: Any) -> None:
        if isinstance(schema, dict):
            for rule in RULES:
                if not isinstance(schema.get(rule), dict):  # a property may have such a name
                    schema.pop(rule, None)
            for inner in schema.values():
                strip(inner)
        elif isinstance(schema, list):
            for inner in schema:
                strip(inner)

    for version in found["spec"]["versions"]:
        strip(version["schema"])
    return found
