"""Variants of random clusters: jobs of several namespaces, nodes with images."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.oracle.worlds import MI, Draw
from volcanoio.model.base import Manifest
from volcanoio.model.names import FAIRSHARE_WEIGHT

NAMESPACES = ("ns", "red", "blue")
WEIGHTS = st.sampled_from([None, None, "2", "0.5", "3", "much", "-1"])
IMAGES = ("repo/a", "repo/b:v1", "localhost:5000/c", "repo/d@sha256:0")
SIZES = st.sampled_from([10 * MI, 60 * MI, 300 * MI, 1500 * MI])


@st.composite
def of_users(draw: Draw, worlds: st.SearchStrategy[list[Manifest]]) -> list[Manifest]:
    """Draw a cluster whose jobs are in several namespaces, which may have weights."""
    objects: list[Manifest] = draw(worlds)
    home: dict[str, str] = {}
    for each in objects:
        if each["kind"] == "PodGroup":
            home[each["metadata"]["name"]] = draw(st.sampled_from(NAMESPACES))
    for each in objects:
        meta = each["metadata"]
        owner = meta["name"] if each["kind"] == "PodGroup" else meta.get("annotations", {}).get(GROUP, "")
        if each["kind"] in ("PodGroup", "Pod") and owner in home:
            meta["namespace"] = home[owner]
    return [*objects, *(_namespace(name, draw(WEIGHTS)) for name in NAMESPACES)]


GROUP = "scheduling.k8s.io/group-name"


def _namespace(name: str, weight: str | None) -> Manifest:
    annotations = {} if weight is None else {FAIRSHARE_WEIGHT: weight}
    meta = {"name": name, "uid": f"namespace-{name}", "annotations": annotations, "labels": {}}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": meta}


@st.composite
def with_images(draw: Draw, worlds: st.SearchStrategy[list[Manifest]]) -> list[Manifest]:
    """Draw a cluster whose nodes have some images, and whose pods use some."""
    objects: list[Manifest] = draw(worlds)
    sizes = {image: draw(SIZES) for image in IMAGES}
    for each in objects:
        if each["kind"] == "Node":
            each["status"]["images"] = [
                {"names": [_reported(image)], "sizeBytes": sizes[image]}
                for image in draw(st.lists(st.sampled_from(IMAGES), unique=True))
            ]
        elif each["kind"] == "Pod":
            each["spec"]["containers"][0]["image"] = draw(st.sampled_from([*IMAGES, "repo/unknown:v1"]))
            first = draw(st.sampled_from([None, None, None, *IMAGES]))
            if first is not None:
                each["spec"]["initContainers"] = [{"name": "first", "image": first}]
    return objects


def _reported(image: str) -> str:
    """Return an image with its tag, by default latest."""
    return image if ":" in image.rpartition("/")[2] else f"{image}:latest"
