"""Verdicts: answers of plugins as values with a reason, never exceptions; users see the reasons."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Flag, IntEnum, auto
from functools import cache

import numpy as np
from numpy.typing import NDArray


class Vote(IntEnum):
    """A vote on a question that several plugins may answer."""

    REJECT = -1
    ABSTAIN = 0
    PERMIT = 1


@dataclass(frozen=True, slots=True)
class Verdict:
    """A vote and, for a rejection, a stable reason code and a text for users.

    `message` stays the same while the reason does: Volcano's words, without amounts. `details` returns the amounts; it
    is called when they are written, at most about once a minute, and before the session closes.
    """

    vote: Vote
    code: str = ""
    message: str = ""
    details: Callable[[], str] | None = field(default=None, compare=False)


PERMIT = Verdict(Vote.PERMIT)
ABSTAIN = Verdict(Vote.ABSTAIN)


def reject(code: str, message: str, details: Callable[[], str] | None = None) -> Verdict:
    """Return a rejection; jobs that share it share the text of its details, which is computed once."""
    return Verdict(Vote.REJECT, code, message, None if details is None else cache(details))


class Depends(Flag):
    """The dependencies of an answer: it is cached until one of these changes. Undeclared means EVERYTHING."""

    NOTHING = 0
    NODE_SPEC = auto()
    """Labels, taints, unschedulable and allocatable of the row's own node."""
    NODE_USAGE = auto()
    """The amounts used on the row's own node."""
    FEASIBLE_SET = auto()
    """Which other nodes are feasible (for scores normalised over them)."""
    PODS = auto()
    """Which pods are on which nodes, by selector."""
    SOURCE = auto()
    """The objects that the plugin `watches` and the facts that it `reads`; if it names none, the answer is not cached
    across cycles.
    """
    NOW = auto()
    """The time, or anything else that may differ between sessions.

    A plugin with an attribute `moment` is called again only when that number changes: it counts changes of such
    answers.
    """
    NODE_AMOUNTS = auto()
    """The allocatable amounts of the row's own node, and nothing else of its object.

    Combined with at most NODE_USAGE, the answer may be taken from another node with the same amounts.
    """
    SKIP = auto()
    """The filter passes every node for the shape and need not be called (kube-scheduler: PreFilter returns Skip).

    Only alone, and only for filters.
    """
    EVERYTHING = NODE_SPEC | NODE_USAGE | FEASIBLE_SET | PODS | SOURCE | NOW | NODE_AMOUNTS


@dataclass(frozen=True, slots=True)
class Feasibility:
    """The nodes that are feasible for a shape. `ok` has one bool per node.

    `reasons` are (text, mask of nodes that fail for it), in the order of the checks: a node is counted under its first.
    Texts are those of Kubernetes and Volcano (`node(s) had untolerated taint {k: v}`).
    """

    ok: NDArray[np.bool_]
    reasons: tuple[tuple[str, NDArray[np.bool_]], ...] = ()
