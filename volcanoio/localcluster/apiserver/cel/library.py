"""All functions an expression may call."""

from __future__ import annotations

from functools import cache

from volcanoio.localcluster.apiserver.cel.functions import (
    conversions,
    formats,
    lists,
    networks,
    operators,
    optionals,
    quantities,
    regexes,
    semvers,
    strings,
    times,
    urls,
)
from volcanoio.localcluster.apiserver.cel.signatures import Function, functions


@cache
def library() -> dict[str, Function]:
    """All functions by name."""
    return functions(
        operators.TABLE,
        conversions.TABLE,
        times.TABLE,
        strings.TABLE,
        regexes.TABLE,
        lists.TABLE,
        optionals.TABLE,
        quantities.TABLE,
        urls.TABLE,
        networks.TABLE,
        formats.TABLE,
        semvers.TABLE,
    )
