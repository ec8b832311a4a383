"""The rules of device allocation, applied to all combinations of devices of tiny inventories: an oracle for tests.

Devices are tainted, shared or partitions of a card; requests have alternatives, ask for all devices or for admin
access, and constraints bind the devices of a claim. The rules are those of Kubernetes: requests in the order of the
claims, and the first alternative that leaves a solution for what follows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any, NamedTuple

from hypothesis import strategies as st

from volcanoio.model.base import Manifest

CARD, MEMORY = 3, 4
"""The amount of the counter that partitions consume, and the memory of a device."""


class Device(NamedTuple):
    """A device; `cells` is what it consumes of the card."""

    model: str
    numa: int | None
    cells: int
    is_tainted: bool
    is_shared: bool

    def manifest(self, name: str) -> dict[str, Any]:
        """The device in a slice."""
        numa = {} if self.numa is None else {"numa": {"int": self.numa}}
        consumes = [{"counterSet": "s", "counters": {"cells": {"value": self.cells}}}] if self.cells else []
        return {
            "name": name,
            "attributes": {"model": {"string": self.model}, **numa},
            "capacity": {"memory": {"value": str(MEMORY)}},
            "consumesCounters": consumes,
            "taints": [{"key": "x", "effect": "NoSchedule"}] if self.is_tainted else [],
            "allowMultipleAllocations": self.is_shared,
        }


class Wanted(NamedTuple):
    """One alternative of a request; a number of 0 is for all devices, `memory` 0 for the default."""

    number: int
    model: str
    tolerates: bool
    is_admin: bool
    memory: int

    def manifest(self) -> dict[str, Any]:
        """The alternative in a claim."""
        expression = f'device.attributes["d"].model == "{self.model}"' if self.model else "true"
        return {
            "deviceClassName": "c",
            "selectors": [{"cel": {"expression": expression}}],
            "tolerations": [{"key": "x", "operator": "Exists"}] if self.tolerates else [],
            **({"allocationMode": "All"} if not self.number else {"count": self.number}),
            **({"adminAccess": True} if self.is_admin else {}),
            **({"capacity": {"requests": {"memory": str(self.memory)}}} if self.memory else {}),
        }


class Claim(NamedTuple):
    """Requests with their alternatives; the constraint is "", match or distinct, of the first request or of all."""

    requests: tuple[tuple[Wanted, ...], ...]
    constraint: str
    of_first: bool

    def spec(self) -> Manifest:
        """The spec of the claim."""
        requests: list[Manifest] = []
        for at, alternatives in enumerate(self.requests):
            if len(alternatives) == 1:
                requests.append({"name": f"r{at}", "exactly": alternatives[0].manifest()})
            else:
                subs = [{"name": f"s{sub}", **one.manifest()} for sub, one in enumerate(alternatives)]
                requests.append({"name": f"r{at}", "firstAvailable": subs})
        constraints: list[Manifest] = []
        if self.constraint:
            constraints = [{"requests": ["r0"] if self.of_first else [], f"{self.constraint}Attribute": "d/numa"}]
        return {"devices": {"requests": requests, "constraints": constraints}}


class Taken(NamedTuple):
    """A device that a request of a claim has."""

    claim: int
    request: int
    wanted: Wanted
    device: int


def accepts(devices: Sequence[Device], held: frozenset[int], claims: Sequence[Claim], taken: Sequence[Taken]) -> bool:
    """Return whether the last device of a list may be added to the others, by the rules."""
    *before, new = taken
    device, wanted = devices[new.device], new.wanted
    if wanted.model not in ("", device.model) or (device.is_tainted and not wanted.tolerates):
        return False
    others = [one for one in before if one.device == new.device]
    if device.is_shared:
        used = sum(one.wanted.memory or MEMORY for one in (*others, new))
        if used > MEMORY:
            return False
    elif wanted.is_admin:
        if any(one.claim == new.claim for one in others):
            return False
    elif others or new.device in held:
        return False
    if (wanted.memory or MEMORY) > MEMORY:
        return False
    consuming = {one.device for one in taken if not one.wanted.is_admin} | held
    if device.cells and not wanted.is_admin and sum(devices[one].cells for one in consuming) > CARD:
        return False
    claim = claims[new.claim]
    if not claim.constraint or (claim.of_first and new.request):
        return True
    bound = [one for one in taken if one.claim == new.claim and not (claim.of_first and one.request)]
    values = [devices[one.device].numa for one in bound]
    if None in values:
        return False
    return len(set(values)) == (1 if claim.constraint == "match" else len(values))


def solutions(
    devices: Sequence[Device], held: frozenset[int], claims: Sequence[Claim], taken: tuple[Taken, ...] = ()
) -> Iterator[tuple[Taken, ...]]:
    """Yield the solutions by trying all combinations of devices for one request after the other."""
    order = [(claim, at) for claim, one in enumerate(claims) for at in range(len(one.requests))]

    def extend(step: int, taken: tuple[Taken, ...]) -> Iterator[tuple[Taken, ...]]:
        if step == len(order):
            yield taken
            return
        claim, at = order[step]
        for wanted in claims[claim].requests[at]:
            matching = [index for index, device in enumerate(devices) if wanted.model in ("", device.model)]
            for some in combinations(matching, wanted.number or len(matching)):
                now = taken
                for index in some:
                    now = (*now, Taken(claim, at, wanted, index))
                    if not accepts(devices, held, claims, now):
                        break
                else:
                    if some:
                        yield from extend(step + 1, now)

    yield from extend(0, taken)


PLAIN = Device("a", numa=0, cells=0, is_tainted=False, is_shared=False)
KINDS = [
    PLAIN,
    PLAIN._replace(is_tainted=True),
    PLAIN._replace(numa=1),
    PLAIN._replace(numa=None),
    PLAIN._replace(cells=1),
    PLAIN._replace(cells=2),
    PLAIN._replace(is_shared=True),
    PLAIN._replace(is_shared=True, cells=2),
    PLAIN._replace(model="b", numa=1, cells=1),
]
"""Devices that differ in little: in the search, one must not stand for the other."""
DEVICES = st.lists(st.sampled_from(KINDS), min_size=1, max_size=4)
WANTED = st.builds(
    Wanted,
    number=st.sampled_from([1, 1, 2, 0]),
    model=st.sampled_from(["", "", "a", "b"]),
    tolerates=st.booleans(),
    is_admin=st.just(False),
    memory=st.sampled_from([0, 1, 2, 2, MEMORY + 1]),
)
ADMIN = st.builds(
    Wanted,
    number=st.sampled_from([1, 0]),
    model=st.just(""),
    tolerates=st.just(True),
    is_admin=st.just(True),
    memory=st.just(1),
)
REQUEST = st.one_of(st.tuples(WANTED), st.tuples(WANTED), st.tuples(WANTED, WANTED), st.tuples(ADMIN))
CLAIMS = st.lists(
    st.builds(
        Claim,
        requests=st.lists(REQUEST, min_size=1, max_size=2).map(tuple),
        constraint=st.sampled_from(["", "", "match", "distinct"]),
        of_first=st.booleans(),
    ),
    min_size=1,
    max_size=2,
)
