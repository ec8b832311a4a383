"""Sub-group policies of PodGroups: the sub-job that a pod's labels select, and its key.

Source: Volcano, `pkg/scheduler/api/sub_job_info.go` and `job_info.go`.
"""

from collections.abc import Mapping, Sequence

import msgspec

from volcanoio.model.core import LabelSelector, Requirement
from volcanoio.model.scheduling import SubGroupPolicy
from volcanoio.model.selectors import satisfied

_LONGEST = 128
"""Joined label values longer than this are replaced by a digest."""
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_FNV_PRIME, _FNV_BASIS = 16777619, 2166136261


class LabelPartition:
    """Sub-group policy: the pods it selects and the label values that distinguish its sub-jobs."""

    __slots__ = ("_keys", "_requirements", "name", "size")

    def __init__(self, policy: SubGroupPolicy) -> None:
        self.name = policy.name
        self.size = policy.sub_group_size
        self._keys = policy.match_label_keys
        self._requirements = _requirements(policy)

    def values(self, labels: Mapping[str, str]) -> list[str]:
        """Return the label values that identify a pod's sub-job, empty when the policy does not select the pod.

        A policy without matchLabelKeys selects none.
        """
        if self._requirements is None or not all(satisfied(item, labels.get(item.key)) for item in self._requirements):
            return []
        values = [labels.get(key, "") for key in self._keys]
        return values if all(values) else []


def _requirements(policy: SubGroupPolicy) -> tuple[Requirement, ...] | None:
    """Return the label requirements; None for an invalid selector, which selects nothing."""
    if policy.label_selector is None:
        return ()
    try:
        return msgspec.convert(policy.label_selector, LabelSelector).requirements
    except msgspec.ValidationError:
        return None


def joined(values: Sequence[str]) -> str:
    """Return label values as a part of a key."""
    if len(text := "-".join(values)) <= _LONGEST:
        return text
    digest = _FNV_BASIS
    for byte in text.encode():
        digest = ((digest ^ byte) * _FNV_PRIME) & 0xFFFFFFFF
    return "".join(_LETTERS[ord(digit) % len(_LETTERS)] for digit in str(digest))


def match_index(value: str) -> int:
    """Return a label value as a number, 0 when it is none."""
    try:
        return int(value)
    except ValueError:
        return 0
