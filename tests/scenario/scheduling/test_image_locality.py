"""imagelocality of nodeorder: nodes that have the images of a pod score higher, as in Kubernetes."""

from __future__ import annotations

from typing import Any

from tests.scenario.scheduling.harness import World, group, node, pod, scenarios
from tests.scenario.scheduling.scoring import ScoreScenario, scores
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


def node_with(name: str, **images: int) -> Manifest:
    """Return a node with images of these sizes in MB."""
    at = node(name)
    reported = [
        {"names": [f"repo/{image}@sha256:0", f"repo/{image}:v1"], "sizeBytes": size * MB}
        for image, size in images.items()
    ]
    return {**at, "status": {**at["status"], "images": reported}}


def pod_with(name: str, *images: str, group: str = "pg", init: tuple[str, ...] = (), **spec: Any) -> Manifest:
    """Return a pod of containers with these images."""
    containers = [
        {"name": f"c{at}", "image": image, "resources": {"requests": {"cpu": "1"}}} for at, image in enumerate(images)
    ]
    before = [{"name": f"i{at}", "image": image} for at, image in enumerate(init)]
    return pod(name, group, spec={"containers": containers, "initContainers": before, **spec})


def locality_world(*objects: Manifest) -> World:
    return World(JOB, *objects, conf=CONF.format(weight=1))


NODES = (node_with("n0", train=1000, base=500), node_with("n1", base=500), node_with("n2"), node_with("n3"))


JOB = group("pg", 1, phase="Inqueue")
LATEST = node_with("n0")
LATEST["status"]["images"] = [{"names": ["host:5000/a:latest"], "sizeBytes": 1000 * MB}]


@scenarios(
    # 1000 MB on a quarter of the nodes are 250 MB, of which 23 MB score nothing, in a range of 1000 MB a container.
    ScoreScenario(
        name="an image that one of four nodes has",
        cluster=[*NODES, JOB, pod_with("p", "repo/train:v1")],
        scores=[23, 0, 0, 0],
    ),
    ScoreScenario(
        name="an image by digest",
        cluster=[*NODES, JOB, pod_with("p", "repo/train@sha256:0")],
        scores=[23, 0, 0, 0],
    ),
    ScoreScenario(
        name="an image that two of four nodes have",
        cluster=[*NODES, JOB, pod_with("p", "repo/base:v1")],
        scores=[23, 23, 0, 0],
    ),
    ScoreScenario(
        name="the images of two containers",
        cluster=[*NODES, JOB, pod_with("p", "repo/train:v1", "repo/base:v1")],
        scores=[24, 11, 0, 0],
    ),
    ScoreScenario(
        name="the image of an init container",
        cluster=[*NODES, JOB, pod_with("p", "other", init=("repo/train:v1",))],
        scores=[11, 0, 0, 0],
    ),
    ScoreScenario(
        name="an image volume",
        cluster=[*NODES, JOB, pod_with("p", "other", volumes=[{"name": "v", "image": {"reference": "repo/train:v1"}}])],
        scores=[23, 0, 0, 0],
    ),
    ScoreScenario(
        name="an image without tag, which means latest, on no node",
        cluster=[*NODES, JOB, pod_with("p", "repo/train")],
        scores=[0, 0, 0, 0],
    ),
    ScoreScenario(
        name="an image without tag, which means latest, on one of two nodes",
        cluster=[LATEST, node_with("n1"), JOB, pod_with("p", "host:5000/a")],
        scores=[48, 0],
    ),
    ScoreScenario(
        name="a weight of 3 multiplies the score",
        conf=CONF.format(weight=3),
        cluster=[*NODES, JOB, pod_with("p", "repo/train:v1")],
        scores=[69, 0, 0, 0],
    ),
    ScoreScenario(
        name="a weight of zero disables the score",
        conf=CONF.format(weight=0),
        cluster=[*NODES, JOB, pod_with("p", "repo/train:v1")],
        scores=[0, 0, 0, 0],
    ),
    conf=CONF.format(weight=1),
)
def test_an_image_scores_by_its_size_and_the_share_of_nodes_that_have_it(scenario: ScoreScenario) -> None:
    scenario.check()


def test_an_image_on_all_nodes_scores_nothing() -> None:
    everywhere = (node_with("n0", base=500), node_with("n1", base=500))
    world = locality_world(*everywhere, pod_with("p", "repo/base:v1"))
    assert scores(world, "p") == [0, 0]
    assert not world.state.ledger.tasks["ns-p"].shape.traits


def test_a_pod_is_bound_to_the_node_that_has_its_image() -> None:
    world = locality_world(*NODES, pod_with("p", "repo/train:v1"), pod_with("q", "unknown"))
    world.run()
    assert world.binds["p"] == "n0"


def test_pods_share_a_shape_when_their_images_do_not_distinguish_nodes() -> None:
    world = locality_world(
        *NODES, *(pod_with(f"p{at}", f"repo/own-{at}") for at in range(3)), pod_with("q", "repo/train:v1")
    )
    scores(world, "q")
    shapes = {name: world.state.ledger.tasks[f"ns-{name}"].shape.id for name in ("p0", "p1", "p2", "q")}
    assert shapes["p0"] == shapes["p1"] == shapes["p2"] != shapes["q"]


def test_scores_follow_images_that_are_added_and_removed() -> None:
    world = locality_world(*NODES, pod_with("p", "repo/train:v1"))
    assert scores(world, "p") == [23, 0, 0, 0]
    assert not world.put(node_with("n3", train=1000))  # this alone starts no cycle
    assert scores(world, "p") == [48, 0, 0, 48]
    world.put(node_with("n0"))
    assert scores(world, "p") == [0, 0, 0, 23]
    world.put(node_with("n3"))
    assert scores(world, "p") == [0, 0, 0, 0]


def test_a_heartbeat_with_the_images_in_another_order_changes_nothing() -> None:
    world = locality_world(*NODES)
    clock = world.state.ledger.columns.clock
    world.put(node_with("n0", base=500, train=1000))
    assert world.state.ledger.columns.clock == clock
