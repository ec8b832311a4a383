"""Weights of resources in the arguments of plugins that score how full something is.

`PREFIX.cpu` and `PREFIX.memory` are fields of the plugin's arguments; `PREFIX.resources` lists other resources,
comma-separated, and `PREFIX.resources.NAME` is the weight of one of them, 1 by default. A negative weight counts as 1.
"""

from collections.abc import Mapping
from typing import Any

from volcanoio.framework.arguments import ArgumentError
from volcanoio.model.resources import CPU, MEMORY


def without_weights(arguments: Mapping[str, Any], listing: str) -> dict[str, Any]:
    """Return the arguments without the weights of the resources that the argument `listing` lists."""
    return {key: value for key, value in arguments.items() if not key.startswith(f"{listing}.")}


def resource_weights(
    plugin: str, arguments: Mapping[str, Any], listing: str, *, cpu: int, memory: int
) -> dict[str, int]:
    """Return the weight of cpu, memory and each resource that the argument `listing` lists.

    Raises ArgumentError for the weight of a resource that is not listed, and for one that is no whole number.
    """
    listed = [name.strip() for name in str(arguments.get(listing, "")).split(",") if name.strip()]
    prefix = f"{listing}."
    given = {key.removeprefix(prefix): value for key, value in arguments.items() if key.startswith(prefix)}
    for name, value in given.items():
        if name not in listed:
            msg = f'{plugin}: "{prefix}{name}" weighs what {listing} does not list; add it there'
            raise ArgumentError(msg, key=prefix + name)
        if not isinstance(value, int) or isinstance(value, bool):
            raise ArgumentError(f'{plugin}: "{prefix}{name}" takes a whole number, without quotes', key=prefix + name)
    weights = {CPU: cpu, MEMORY: memory, **{name: given.get(name, 1) for name in listed}}
    return {name: weight if weight >= 0 else 1 for name, weight in weights.items()}
