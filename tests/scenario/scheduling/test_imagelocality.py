"""Nodes that have a pod's images already: by Kubernetes' score, and as nodes and what they have come and go."""

from __future__ import annotations

from typing import Any

import pytest

from tests.scenario.scheduling.harness import World, group, node, pod
from volcanoio.engine.scheduling.session.cycle import open_session
from volcanoio.engine.scheduling.session.session import CycleSession
from volcanoio.framework.scheduling_events import CycleOpened
from volcanoio.model.base import Manifest

CONF = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: gang
  - name: nodeorder
    arguments:
      leastrequested.weight: 0
      balancedresource.weight: 0
      imagelocality.weight: {weight}
"""
MB = 1024 * 1024


def having(name: str, **images: int) -> Manifest:
    """A node with images of these sizes in MB."""
    at = node(name)
    reported = [
        {"names": [f"repo/{image}@sha256:0", f"repo/{image}:v1"], "sizeBytes": size * MB}
        for image, size in images.items()
    ]
    return {**at, "status": {**at["status"], "images": reported}}


def wanting(name: str, *images: str, group: str = "pg", init: tuple[str, ...] = (), **spec: Any) -> Manifest:
    """A pod of containers with these images."""
    containers = [
        {"name": f"c{at}", "image": image, "resources": {"requests": {"cpu": "1"}}} for at, image in enumerate(images)
    ]
    before = [{"name": f"i{at}", "image": image} for at, image in enumerate(init)]
    return pod(name, group, spec={"containers": containers, "initContainers": before, **spec})


def world(*objects: Manifest, weight: int = 1) -> World:
    return World(group("pg", 1, phase="Inqueue"), *objects, conf=CONF.format(weight=weight))


def scores(of: World, name: str) -> list[float]:
    """The scores of a pod, node by node, as the placer has them."""
    session = CycleSession(of.state, of.profile, CycleOpened(cycle=1, upto=0, seed=1, at=of.now))
    list(open_session(session))
    task = of.state.ledger.tasks[f"ns-{name}"]
    assert task.job_info is not None
    session.runs(task.job_info, best_effort=False)
    return list(of.state.placer.candidate_scores(task)[1])


NODES = (having("n0", train=1000, base=500), having("n1", base=500), having("n2"), having("n3"))


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (wanting("p", "repo/train:v1"), [23, 0, 0, 0]),  # 250 of 1000 MB, from 23 on
        (wanting("p", "repo/train@sha256:0"), [23, 0, 0, 0]),
        (wanting("p", "repo/base:v1"), [23, 23, 0, 0]),
        (wanting("p", "repo/train:v1", "repo/base:v1"), [24, 11, 0, 0]),  # up to 2000 MB
        (wanting("p", "other", init=("repo/train:v1",)), [11, 0, 0, 0]),
        (wanting("p", "other", volumes=[{"name": "v", "image": {"reference": "repo/train:v1"}}]), [23, 0, 0, 0]),
        (wanting("p", "repo/train"), [0, 0, 0, 0]),
    ],
)
def test_an_image_counts_by_size_and_by_how_many_nodes_have_it(pod: Manifest, expected: list[float]) -> None:
    assert scores(world(*NODES, pod), "p") == expected


def test_weights_multiply_and_zero_is_none() -> None:
    pod = wanting("p", "repo/train:v1")
    assert scores(world(*NODES, pod, weight=3), "p") == [69, 0, 0, 0]
    assert scores(world(*NODES, pod, weight=0), "p") == [0, 0, 0, 0]


def test_an_image_without_tag_is_latest() -> None:
    latest = having("n0")
    latest["status"]["images"] = [{"names": ["host:5000/a:latest"], "sizeBytes": 1000 * MB}]
    assert scores(world(latest, having("n1"), wanting("p", "host:5000/a")), "p") == [48, 0]


def test_an_image_on_all_nodes_distinguishes_none() -> None:
    everywhere = (having("n0", base=500), having("n1", base=500))
    of = world(*everywhere, wanting("p", "repo/base:v1"))
    assert scores(of, "p") == [0, 0]
    assert not of.state.ledger.tasks["ns-p"].shape.traits


def test_pods_go_where_their_images_are() -> None:
    of = world(*NODES, wanting("p", "repo/train:v1"), wanting("q", "unheard-of"))
    of.run()
    assert of.binds["p"] == "n0"


def test_pods_share_a_shape_when_their_images_do_not_distinguish_nodes() -> None:
    of = world(*NODES, *(wanting(f"p{at}", f"repo/own-{at}") for at in range(3)), wanting("q", "repo/train:v1"))
    scores(of, "q")
    shapes = {name: of.state.ledger.tasks[f"ns-{name}"].shape.id for name in ("p0", "p1", "p2", "q")}
    assert shapes["p0"] == shapes["p1"] == shapes["p2"] != shapes["q"]


def test_images_come_and_go() -> None:
    of = world(*NODES, wanting("p", "repo/train:v1"))
    assert scores(of, "p") == [23, 0, 0, 0]
    assert not of.put(having("n3", train=1000))  # no reason for a cycle by itself
    assert scores(of, "p") == [48, 0, 0, 48]
    of.put(having("n0"))
    assert scores(of, "p") == [0, 0, 0, 23]
    of.put(having("n3"))
    assert scores(of, "p") == [0, 0, 0, 0]


def test_a_heartbeat_with_the_images_in_another_order_changes_nothing() -> None:
    of = world(*NODES)
    clock = of.state.ledger.columns.clock
    of.put(having("n0", base=500, train=1000))
    assert of.state.ledger.columns.clock == clock
