"""topology.volcano.sh/v1alpha1: HyperNode, a part of the network that nodes or smaller parts belong to."""

from __future__ import annotations

from volcanoio.model.base import ApiObject, Model
from volcanoio.model.core import LabelSelector


class ExactMatch(Model):
    """`exactMatch` of a member's selector."""

    name: str = ""


class RegexMatch(Model):
    """`regexMatch` of a member's selector."""

    pattern: str = ""


class MemberSelector(Model):
    """Which nodes or hypernodes a member stands for: one of the three is set."""

    exact_match: ExactMatch | None = None
    regex_match: RegexMatch | None = None
    label_match: LabelSelector | None = None


class Member(Model):
    """`spec.members[]`: `type` is Node or HyperNode."""

    type: str = ""
    selector: MemberSelector = MemberSelector()


class HyperNodeSpec(Model):
    """`spec` of a hypernode; the higher the tier, the farther apart its nodes are."""

    tier: int = 0
    tier_name: str = ""
    members: tuple[Member, ...] = ()


class HyperNode(ApiObject):
    """topology.volcano.sh/v1alpha1 HyperNode."""

    spec: HyperNodeSpec = HyperNodeSpec()
