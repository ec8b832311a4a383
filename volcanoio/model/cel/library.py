"""All functions an expression may call."""

from __future__ import annotations

from functools import cache

from volcanoio.model.cel.functions import kubernetes, lists, standard, strings, times
from volcanoio.model.cel.signatures import Function, functions


@cache
def library() -> dict[str, Function]:
    """Return all functions by name."""
    return functions(
        standard.OPERATORS,
        standard.CONVERSIONS,
        times.TABLE,
        strings.STRINGS,
        strings.REGEXES,
        lists.TABLE,
        standard.OPTIONALS,
        kubernetes.QUANTITIES,
        kubernetes.URLS,
        kubernetes.NETWORKS,
        kubernetes.NAMED_FORMATS,
        kubernetes.SEMVERS,
    )
