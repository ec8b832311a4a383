"""Random clusters with sub-jobs: policies with and without selectors, sizes and minimums."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.oracle.worlds import Draw
from volcanoio.model.base import Manifest

VALUES = ["0", "1", "2", "x"]
POLICY = st.fixed_dictionaries(
    {"matchLabelKeys": st.sampled_from([["part"], ["part"], ["part"], ["part", "row"], []])},
    optional={
        "subGroupSize": st.integers(1, 3),
        "minSubGroups": st.integers(0, 3),
        "labelSelector": st.sampled_from([{"matchLabels": {"row": "a"}}, {}]),
    },
)
ROLES = st.dictionaries(st.sampled_from(["", "a", "b"]), st.integers(1, 2), min_size=1, max_size=2)


@st.composite
def partitioned(draw: Draw, worlds: st.SearchStrategy[list[Manifest]]) -> list[Manifest]:
    """Draw a cluster in which most jobs have policies, and their pods labels."""
    objects: list[Manifest] = draw(worlds)
    for each in objects:
        if each["kind"] == "PodGroup" and draw(st.integers(0, 3)):
            policies = draw(st.lists(POLICY, min_size=1, max_size=2))
            each["spec"]["subGroupPolicy"] = [{"name": f"p{at}", **policy} for at, policy in enumerate(policies)]
            _label(draw, each["metadata"]["name"], objects)
    return objects


def _label(draw: Draw, name: str, objects: list[Manifest]) -> None:
    pods = [one for one in objects if one["kind"] == "Pod" and _group(one) == name]
    for at, one in enumerate(pods):
        part = draw(st.sampled_from([str(at // 2), str(at // 2), *VALUES]))
        labels: dict[str, Any] = {"part": part, **draw(st.sampled_from([{"row": "a"}, {"row": "a"}, {}]))}
        one["metadata"]["labels"] = {**one["metadata"].get("labels", {}), **labels}


@st.composite
def roled(draw: Draw, worlds: st.SearchStrategy[list[Manifest]]) -> list[Manifest]:
    """Draw a cluster in which some jobs have minimums of roles."""
    objects: list[Manifest] = draw(worlds)
    for each in objects:
        if each["kind"] == "PodGroup" and draw(st.booleans()):
            each["spec"]["minTaskMember"] = {role: least for role, least in draw(ROLES).items() if role}
            for one in objects:
                if one["kind"] == "Pod" and _group(one) == each["metadata"]["name"]:
                    one["metadata"]["annotations"]["volcano.sh/task-spec"] = draw(st.sampled_from(["a", "a", "b"]))
    return objects


def _group(pod: Manifest) -> str:
    return str(pod["metadata"]["annotations"].get("scheduling.k8s.io/group-name", ""))
