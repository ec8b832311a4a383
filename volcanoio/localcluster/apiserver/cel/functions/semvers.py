"""Semantic versions (Kubernetes' `kubernetes.Semver`, semver.org 2.0.0)."""

from __future__ import annotations

import re
from typing import Any, Final

from volcanoio.localcluster.apiserver.cel.errors import EvaluationError
from volcanoio.localcluster.apiserver.cel.functions.arguments import taking
from volcanoio.localcluster.apiserver.cel.signatures import Declared
from volcanoio.localcluster.apiserver.cel.values import Opaque

_NUMBER: Final = r"(0|[1-9]\d*)"
_PART: Final = r"(?:0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*)"
_VERSION: Final = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-({_PART}(?:\.{_PART})*))?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?", re.ASCII
)


class Semver(Opaque):
    """A version; build metadata does not count."""

    __slots__ = ("numbers", "pre")
    kind = "kubernetes.Semver"

    def __init__(self, numbers: tuple[int, ...], pre: tuple[tuple[int, int, str], ...]) -> None:
        self.numbers, self.pre = numbers, pre

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Semver) and self.order == other.order

    def __hash__(self) -> int:
        return hash(self.order)

    @property
    def order(self) -> tuple[Any, ...]:
        """What versions are compared by: a release comes after its pre-releases."""
        return (self.numbers, not self.pre, self.pre)


def _parse(text: str) -> Semver:
    match = _VERSION.fullmatch(text)
    if match is None:
        raise ValueError("No Major.Minor.Patch elements found" if text.count(".") < 2 else f"Invalid version: {text}")
    pre = tuple((0, int(one), "") if one.isdigit() else (1, 0, one) for one in (match[4] or "").split(".") if one)
    return Semver(tuple(int(one) for one in match.groups()[:3]), pre)


def _normalized(text: str) -> str:
    """`v1.02` as `1.2.0`."""
    parts = text.removeprefix("v").split(".", 2)
    parts = [
        (rest if (rest := one.lstrip("0"))[:1].isdigit() else f"0{rest}") if len(one) > 1 else one for one in parts
    ]
    if len(parts) < 3 and not re.search(r"[+-]", parts[-1]):
        parts += ["0"] * (3 - len(parts))
    return ".".join(parts)


def _semver(text: str, normalize: bool = False) -> Semver:
    try:
        return _parse(_normalized(text) if normalize else text)
    except ValueError as error:
        raise EvaluationError(str(error)) from None


def _is_semver(text: str, normalize: bool = False) -> bool:
    try:
        _parse(_normalized(text) if normalize else text)
    except ValueError:
        return False
    return True


_TWO = "kubernetes.Semver.(kubernetes.Semver)"
_one, _pair = taking(Semver), taking(Semver, Semver)

TABLE: dict[str, Declared] = {
    "semver": Declared(
        "(string) -> kubernetes.Semver; (string, bool) -> kubernetes.Semver", taking(str, bool)(_semver)
    ),
    "isSemver": Declared("(string) -> bool; (string, bool) -> bool", taking(str, bool)(_is_semver)),
    "major": Declared("kubernetes.Semver.() -> int", _one(lambda one: one.numbers[0])),
    "minor": Declared("kubernetes.Semver.() -> int", _one(lambda one: one.numbers[1])),
    "patch": Declared("kubernetes.Semver.() -> int", _one(lambda one: one.numbers[2])),
    "isGreaterThan": Declared(f"{_TWO} -> bool", _pair(lambda one, other: one.order > other.order)),
    "isLessThan": Declared(f"{_TWO} -> bool", _pair(lambda one, other: one.order < other.order)),
    "compareTo": Declared(
        f"{_TWO} -> int", _pair(lambda one, other: (one.order > other.order) - (one.order < other.order))
    ),
}
