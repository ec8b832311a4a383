"""Which CPUs a kubelet assigns: literals, and properties against a search of all sets of NUMA nodes."""

from __future__ import annotations

from itertools import combinations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from volcanoio.framework.scheduling.numa import (
    AffinityError,
    CpuTopology,
    ShortageError,
    TopologyPolicy,
    assign,
    bits,
    exclusive_cpus,
    format_cpus,
    parse_cpus,
    take,
)
from volcanoio.model.core import PodSpec
from volcanoio.model.nodes import CpuDetail

NONE, BEST_EFFORT, RESTRICTED, SINGLE = TopologyPolicy


def machine(numa: int = 2, cores: int = 2, threads: int = 2) -> CpuTopology:
    """Return a machine; the CPUs of a core are numbered as on most servers: the second threads come last."""
    total = numa * cores
    return CpuTopology.of(
        {
            str(core + total * thread): CpuDetail(numa=core // cores, socket=core // cores, core=core)
            for core in range(total)
            for thread in range(threads)
        }
    )


@pytest.mark.parametrize(("text", "cpus"), [("", []), ("3", [3]), ("0-2,8", [0, 1, 2, 8]), (" 1 , 0 ", [0, 1])])
def test_lists_of_cpus(text: str, cpus: list[int]) -> None:
    assert list(bits(parse_cpus(text))) == cpus
    assert parse_cpus(format_cpus(parse_cpus(text))) == parse_cpus(text)


@pytest.mark.parametrize("text", ["a", "3-1", "-1", "1-", "0-99999"])
def test_other_lists_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"range of CPUs|invalid literal"):
        parse_cpus(text)


@pytest.mark.parametrize(
    ("free", "count", "taken"),
    [
        ("0-7", 2, "0,4"),  # a whole core
        ("0-7", 3, "0-1,4"),  # and the first thread of the next
        ("0-7", 4, "0-1,4-5"),  # a whole NUMA node
        ("1-7", 1, "4"),  # the rest of a core that is in use
        ("0-1,3-7", 2, "3,7"),  # a core of the fuller NUMA node
        ("0-7", 6, "0-2,4-6"),
        ("0-7", 0, ""),
    ],
)
def test_whole_cores_are_taken_first_from_the_fullest_numa_node(free: str, count: int, taken: str) -> None:
    assert format_cpus(take(machine(), parse_cpus(free), count)) == taken


@pytest.mark.parametrize(
    ("free", "count", "taken"),
    [
        ("0-7", 4, "0-3"),  # a whole socket of two NUMA nodes
        ("2-7", 4, "4-7"),  # the one that is whole, not two NUMA nodes of different sockets
        ("2-7", 6, "2-7"),  # it, and a whole NUMA node
        ("1-7", 3, "1-3"),  # a whole NUMA node, and the rest of the fullest one
    ],
)
def test_whole_sockets_are_taken_first_where_they_have_several_numa_nodes(free: str, count: int, taken: str) -> None:
    details = {str(cpu): CpuDetail(numa=cpu // 2, socket=cpu // 4, core=cpu) for cpu in range(8)}
    assert format_cpus(take(CpuTopology.of(details), parse_cpus(free), count)) == taken


def test_a_pod_of_best_effort_is_admitted_unless_cpus_are_missing() -> None:
    free = parse_cpus("0,2-3")
    assert assign(machine(), BEST_EFFORT, free, [3]) == free
    with pytest.raises(ShortageError):
        assign(machine(), BEST_EFFORT, free, [4])


def test_restricted_demands_the_fewest_numa_nodes_of_an_empty_machine() -> None:
    assert assign(machine(), RESTRICTED, parse_cpus("0-7"), [5]).bit_count() == 5
    with pytest.raises(AffinityError):
        assign(machine(), RESTRICTED, parse_cpus("0,2"), [2])


def test_single_numa_node_demands_one() -> None:
    for free, count in (("0-7", 5), ("0,2", 2), ("0", 2)):
        with pytest.raises(AffinityError):
            assign(machine(), SINGLE, parse_cpus(free), [count])
    assert format_cpus(assign(machine(), SINGLE, parse_cpus("0,2-3,6-7"), [4])) == "2-3,6-7"


def test_without_policy_numa_nodes_do_not_matter() -> None:
    assert format_cpus(assign(machine(), NONE, parse_cpus("0,2"), [2])) == "0,2"


def test_a_machine_with_many_numa_nodes_is_one_choice() -> None:
    large = machine(numa=12, cores=1, threads=1)
    assert len(large.choices) == 1
    assert assign(large, BEST_EFFORT, large.cpus, [7]).bit_count() == 7


def spec(*containers: tuple[str, str], init: tuple[str, str] | None = None, restart: str = "") -> PodSpec:
    def one(requests: str, limits: str) -> dict[str, object]:
        memory = {"memory": "1Gi"}
        return {"resources": {"requests": {"cpu": requests, **memory}, "limits": {"cpu": limits, **memory}}}

    first = [] if init is None else [{**one(*init), "restartPolicy": restart}]
    return msgspec.convert({"containers": [one(*each) for each in containers], "initContainers": first}, PodSpec)


@pytest.mark.parametrize(
    ("given", "counts"),
    [
        (spec(("2", "2"), ("500m", "500m"), ("3", "3")), (2, 3)),
        (spec(("2", "3")), ()),
        (spec(("1500m", "1500m")), ()),
        (spec(("2", "2"), init=("4", "4")), (2,)),
        (spec(("2", "2"), init=("4", "4"), restart="Always"), (4, 2)),
        (spec(("2", "2"), init=("4", "5")), ()),
        (PodSpec(), ()),
    ],
)
def test_whole_cpus_of_guaranteed_pods_are_exclusive(given: PodSpec, counts: tuple[int, ...]) -> None:
    assert exclusive_cpus(given) == counts


_MACHINES = st.builds(machine, st.integers(1, 4), st.integers(1, 3), st.integers(1, 2))


@given(_MACHINES, st.sampled_from(TopologyPolicy), st.integers(0, (1 << 24) - 1), st.integers(1, 12))
def test_one_container_is_admitted_as_the_policy_says(
    topology: CpuTopology, policy: TopologyPolicy, mask: int, count: int
) -> None:
    free = topology.cpus & mask
    masks = [cpus for _, cpus in topology.numa_nodes]
    sets = [sum(chosen) for size in range(1, len(masks) + 1) for chosen in combinations(masks, size)]
    sizes = {each: sum(1 for cpus in masks if cpus & each) for each in sets}
    fewest = min((sizes[each] for each in sets if each.bit_count() >= count), default=99)
    fewest_free = min((sizes[each] for each in sets if (each & free).bit_count() >= count), default=99)
    admitted = {
        NONE: free.bit_count() >= count,
        BEST_EFFORT: free.bit_count() >= count,
        RESTRICTED: fewest_free == fewest < 99,
        SINGLE: fewest_free == 1,
    }[policy]
    try:
        taken = assign(topology, policy, free, [count])
    except (AffinityError, ShortageError):
        assert not admitted
        return
    assert admitted
    assert (taken.bit_count(), taken & free) == (count, taken)
    if policy is not NONE:
        assert len(topology.numa_ids(taken)) <= fewest_free


@given(_MACHINES, st.sampled_from(TopologyPolicy), st.lists(st.integers(1, 6), min_size=1, max_size=6))
def test_no_cpu_is_assigned_twice(topology: CpuTopology, policy: TopologyPolicy, counts: list[int]) -> None:
    free = topology.cpus
    for count in counts:
        try:
            taken = assign(topology, policy, free, [count])
        except (AffinityError, ShortageError):
            continue
        assert taken & free == taken
        free &= ~taken
