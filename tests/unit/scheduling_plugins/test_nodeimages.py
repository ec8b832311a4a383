"""Which nodes have which images: an updated table equals one computed from all nodes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from volcanoio_plugins.scheduling.kubernetes.imagelocality import MIN_BYTES, NodeImages, normalized, scaled

from tests.examples import examples
from volcanoio.engine.scheduling.cluster.node_columns import NodeColumns
from volcanoio.model.base import ObjectMeta
from volcanoio.model.core import ContainerImage, Node, NodeStatus

NAMES = ("a:1", "b:1", "c:1")
IMAGES = st.lists(
    st.builds(
        ContainerImage,
        names=st.lists(st.sampled_from(NAMES), min_size=1, max_size=2, unique=True).map(tuple),
        size_bytes=st.integers(1, 2),
    ),
    max_size=3,
    unique_by=lambda image: image.names,
).map(tuple)
STEPS = st.lists(
    st.lists(st.tuples(st.sampled_from([f"n{at}" for at in range(5)]), st.one_of(st.none(), IMAGES)), max_size=4),
    max_size=6,
)


@examples(60)
@given(STEPS)
def test_the_updated_table_equals_a_newly_computed_one(
    steps: list[list[tuple[str, tuple[ContainerImage, ...] | None]]],
) -> None:
    columns, images = NodeColumns(), NodeImages()
    for step in steps:
        for name, has in step:
            if has is not None:
                columns.put_node(Node(metadata=ObjectMeta(name=name), status=NodeStatus(images=has)))
            elif name in columns.rows:
                columns.remove_node(name)
        for _ in images.update(columns):
            pass
        assert len(images) == len(columns)
        for name in NAMES:
            listed = [[one for one in node.status.images if name in one.names] for node in columns.objects]
            assert images.having(name)[: len(columns)].tolist() == [bool(ones) for ones in listed]
            sizes = [one.size_bytes for ones in listed for one in ones]
            assert images.lookup(name) == (sum(map(len, listed)), max(sizes, default=0))


def test_equal_images_are_one_object() -> None:
    one, other = (NodeStatus(images=(ContainerImage(names=("a:1", "a@x"), size_bytes=7),)) for _ in range(2))
    assert one.images[0] is other.images[0]


def test_shares_are_exact_in_small_clusters_and_whole_percents_in_large_ones() -> None:
    assert scaled(3 * MIN_BYTES, 1, 3) == MIN_BYTES
    assert [scaled(1000, nodes, 1000) for nodes in (4, 5, 14, 15, 1000)] == [0, 10, 10, 20, 1000]


def test_a_missing_tag_means_latest() -> None:
    assert [normalized(name) for name in ("a", "a:1", "h:5/a", "h:5/a@sha256:0")] == [
        "a:latest",
        "a:1",
        "h:5/a:latest",
        "h:5/a@sha256:0",
    ]
