"""Verdicts are values with a reason, never exceptions; the reasons are what people are shown."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Flag, IntEnum, auto

import numpy as np
from numpy.typing import NDArray


class Vote(IntEnum):
    """An answer to a question that several plugins may answer."""

    REJECT = -1
    ABSTAIN = 0
    PERMIT = 1


@dataclass(frozen=True, slots=True)
class Verdict:
    """A vote and, for a rejection, a stable reason code and a text for people."""

    vote: Vote
    code: str = ""
    message: str = ""


PERMIT = Verdict(Vote.PERMIT)
ABSTAIN = Verdict(Vote.ABSTAIN)


def reject(code: str, message: str) -> Verdict:
    """A rejection."""
    return Verdict(Vote.REJECT, code, message)


class Depends(Flag):
    """What an answer depends on: it is kept until one of these changes. Undeclared means EVERYTHING."""

    NOTHING = 0
    NODE_SPEC = auto()
    """Labels, taints, unschedulable, allocatable: of the row's own node."""
    NODE_USAGE = auto()
    """What is placed on the row's own node, as amounts."""
    FEASIBLE_SET = auto()
    """Which other nodes are feasible (scores normalised over them)."""
    PODS = auto()
    """Which pods are where, by selector."""
    SOURCE = auto()
    """Facts of the plugin's own source: objects of the kinds it `watches`, where it names any; else they may be others
    in each cycle."""
    NOW = auto()
    """The time, or anything else that may be other in each session. A plugin with an attribute `moment` is asked again
    only when that is another number: it counts when such answers were others."""
    NODE_AMOUNTS = auto()
    """Of the row's own node what it offers, nothing else of its object: with at most NODE_USAGE beside it, the answer
    may be taken from another node of the same amounts."""
    EVERYTHING = NODE_SPEC | NODE_USAGE | FEASIBLE_SET | PODS | SOURCE | NOW | NODE_AMOUNTS


@dataclass(frozen=True, slots=True)
class Feasibility:
    """Which nodes a shape may go to. `ok` has one bool a node.

    `reasons` are (text, mask of nodes that fail for it), in the order in which they are checked: a node is counted
    under its first. Texts are Kubernetes' and Volcano's (`node(s) had untolerated taint {k: v}`).
    """

    ok: NDArray[np.bool_]
    reasons: tuple[tuple[str, NDArray[np.bool_]], ...] = ()
