"""Random clusters whose pods use claims: bound ones, ones that wait for a pod, and invalid ones."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.oracle.worlds import HOST, Draw
from tests.scenario.scheduling.storage import claim, csi_node, on, storage_class, volume
from volcanoio.model.base import Manifest

ZONE = "topology.kubernetes.io/zone"
DRIVER = "csi.example"
SIZES = st.sampled_from(["1Gi", "2Gi", "3Gi"])
PLACES = st.sampled_from([None, on(HOST, "n0"), on(HOST, "n1"), on(HOST, "n0", "n2"), on(ZONE, "za")])
CSI = {"csi": {"driver": DRIVER, "volumeHandle": "handle"}}
CLASSES = [
    storage_class("local"),
    storage_class("made", DRIVER),
    storage_class(
        "somewhere", DRIVER, allowedTopologies=[{"matchLabelExpressions": [{"key": ZONE, "values": ["za"]}]}]
    ),
    storage_class("at-once", DRIVER, volumeBindingMode="Immediate"),
]


@st.composite
def stored(draw: Draw, worlds: st.SearchStrategy[list[Manifest]]) -> list[Manifest]:
    """Draw a cluster some of whose pods use claims; an unbound claim is used by one pod."""
    objects: list[Manifest] = draw(worlds)
    made: list[Manifest] = [*CLASSES]
    for each in objects:
        if each["kind"] == "Node":
            if zone := draw(st.sampled_from([None, "za", "zb"])):
                each["metadata"]["labels"][ZONE] = zone
            if draw(st.booleans()):
                made.append(csi_node(each["metadata"]["name"], DRIVER, draw(st.sampled_from([None, 1, 2, 3]))))
    made += [_free(draw, number) for number in range(draw(st.integers(0, 4)))]
    shared = [_bound(draw, made, f"shared-{number}") for number in range(2)]
    for each in objects:
        if each["kind"] == "Pod" and draw(st.booleans()):
            _use(draw, each, made, shared)
    return [*made, *objects]


def _use(draw: Draw, pod: Manifest, made: list[Manifest], shared: list[str]) -> None:
    claims = []
    for number in range(draw(st.sampled_from([1, 1, 2]))):
        name = f"{pod['metadata']['name']}-c{number}"
        what = draw(st.sampled_from(["shared", "bound", "local", "local", "made", "somewhere", "at-once", "missing"]))
        if pod["spec"]["nodeName"]:
            what = draw(st.sampled_from(["shared", "bound"]))
        if what == "shared":
            name = draw(st.sampled_from(shared))
        elif what == "bound":
            _bound(draw, made, name)
        elif what != "missing":
            made.append(claim(name, what, draw(SIZES)))
        if name not in claims:
            claims.append(name)
    pod["spec"]["volumes"] = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]


def _bound(draw: Draw, made: list[Manifest], name: str) -> str:
    """Draw a claim with its volume."""
    zone = draw(st.sampled_from([{}, {}, {ZONE: "za"}, {ZONE: "za__zb"}]))
    once = draw(st.sampled_from([["ReadWriteOnce"], ["ReadWriteOnce"], ["ReadWriteOncePod"]]))
    more = draw(st.sampled_from([{}, CSI]))
    made.append(claim(name, "local", volume=f"v-{name}", modes=once))
    made.append(volume(f"v-{name}", "local", phase="Bound", reach=draw(PLACES), labels=zone, modes=once, **more))
    return name


def _free(draw: Draw, number: int) -> Manifest:
    return volume(f"free-{number}", "local", draw(SIZES), reach=draw(PLACES))
