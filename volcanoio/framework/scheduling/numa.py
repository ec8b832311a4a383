"""Which CPUs a kubelet gives to a pod: the static CPU manager under a policy of the topology manager.

A container of a Guaranteed pod that requests whole CPUs gets them exclusively. The policies restrict from how many NUMA
nodes they may come. Sets of CPUs and of NUMA nodes are bit masks. Containers are aligned one by one (scope `container`,
the kubelet's default). Source: Kubernetes, pkg/kubelet/cm/cpumanager (policy_static.go: GetTopologyHints;
cpu_assignment.go: takeByTopologyNUMAPacked) and pkg/kubelet/cm/topologymanager.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, lru_cache
from itertools import combinations

from volcanoio.model.core import Container, PodSpec
from volcanoio.model.nodes import CpuDetail
from volcanoio.model.quantity import QuantityError
from volcanoio.model.resources import CPU, MEMORY, amounts

STATIC = "static"
"""The CPU manager policy that assigns CPUs exclusively."""
CPU_MANAGER_POLICY, TOPOLOGY_MANAGER_POLICY = "CPUManagerPolicy", "TopologyManagerPolicy"
"""Keys of `spec.policies` of a Numatopology."""
MOST_NUMA_NODES = 8
"""Most NUMA nodes that the topology manager supports; more are treated as one set."""
MOST_CPUS = 4096
"""CPUs of the largest machine that is read."""


class TopologyPolicy(StrEnum):
    """A policy of the topology manager."""

    NONE = "none"
    BEST_EFFORT = "best-effort"
    RESTRICTED = "restricted"
    SINGLE = "single-numa-node"


def parse_cpus(text: str) -> int:
    """Return a list such as `0-3,8` as a mask; raises ValueError."""
    mask = 0
    for part in filter(None, (each.strip() for each in text.split(","))):
        first, dash, last = part.partition("-")
        low, high = int(first), int(last if dash else first)
        if not 0 <= low <= high < MOST_CPUS:
            raise ValueError(f"{part!r} is not a range of CPUs")
        mask |= (1 << (high + 1)) - (1 << low)
    return mask


def format_cpus(mask: int) -> str:
    """Return a mask as a list such as `0-3,8`."""
    parts: list[str] = []
    cpus = list(bits(mask))
    start = 0
    for at, cpu in enumerate(cpus):
        if at + 1 == len(cpus) or cpus[at + 1] != cpu + 1:
            parts.append(str(cpu) if start == at else f"{cpus[start]}-{cpu}")
            start = at + 1
    return ",".join(parts)


def bits(mask: int) -> Iterator[int]:
    """Yield the numbers in a mask, smallest first."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


@dataclass(frozen=True)
class CpuTopology:
    """The CPUs of a machine: masks of CPUs by NUMA node, by core (socket, core), and by socket."""

    numa_nodes: tuple[tuple[int, int], ...]
    cores: tuple[int, ...]
    sockets: tuple[int, ...] = ()

    @classmethod
    def of(cls, details: Mapping[str, CpuDetail]) -> "CpuTopology":
        """Return the topology of a Numatopology's cpuDetail; raises ValueError for a CPU without a number."""
        numa_nodes: dict[int, int] = {}
        cores: dict[tuple[int, int], int] = {}
        sockets: dict[int, int] = {}
        for name, detail in details.items():
            cpu = parse_cpus(name)
            numa_nodes[detail.numa] = numa_nodes.get(detail.numa, 0) | cpu
            cores[detail.socket, detail.core] = cores.get((detail.socket, detail.core), 0) | cpu
            sockets[detail.socket] = sockets.get(detail.socket, 0) | cpu
        ordered = sorted(cores.values(), key=lambda mask: mask & -mask)
        return cls(
            tuple(sorted(numa_nodes.items())), tuple(ordered), tuple(each for _, each in sorted(sockets.items()))
        )

    @cached_property
    def cpus(self) -> int:
        """All CPUs."""
        return sum(mask for _, mask in self.numa_nodes)

    @cached_property
    def choices(self) -> tuple[tuple[int, int], ...]:
        """Number of NUMA nodes and CPUs of each set of NUMA nodes: fewer first, then lower numbers."""
        masks = [mask for _, mask in self.numa_nodes]
        if len(masks) > MOST_NUMA_NODES:
            return ((len(masks), self.cpus),)
        sizes = range(1, len(masks) + 1)
        return tuple((size, sum(chosen)) for size in sizes for chosen in combinations(masks, size))

    def least(self, count: int) -> int:
        """Return the number of NUMA nodes that so many CPUs need at least; more than there are if all have fewer."""
        fitting = (size for size, cpus in self.choices if cpus.bit_count() >= count)
        return next(fitting, len(self.numa_nodes) + 1)

    def numa_ids(self, cpus: int) -> dict[int, int]:
        """Return how many of these CPUs are on each NUMA node that has any."""
        return {number: found for number, mask in self.numa_nodes if (found := (mask & cpus).bit_count())}


def take(topology: CpuTopology, pool: int, count: int) -> int:
    """Return `count` CPUs of a pool: whole NUMA nodes and sockets, then cores, then the rest, from full NUMA nodes.

    Of NUMA nodes and sockets those of which there are fewer come first. The pool must have as many CPUs.
    """
    taken = 0
    levels = sorted(([cpus for _, cpus in topology.numa_nodes], topology.sockets), key=len)
    for cpus in (each for level in levels for each in level):
        if cpus & pool & ~taken == cpus and cpus.bit_count() <= count - taken.bit_count():
            taken |= cpus
    for core in sorted((each for each in topology.cores if each & pool == each), key=_fullness(topology, pool)):
        if not core & taken and core.bit_count() <= count - taken.bit_count():
            taken |= core
    if taken.bit_count() < count:
        fullness, core_of = _fullness(topology, pool), {cpu: core for core in topology.cores for cpu in bits(core)}
        rest = sorted(bits(pool & ~taken), key=lambda cpu: ((core_of[cpu] & pool).bit_count(), fullness(1 << cpu), cpu))
        for cpu in rest[: count - taken.bit_count()]:
            taken |= 1 << cpu
    return taken


def _fullness(topology: CpuTopology, pool: int) -> Callable[[int], tuple[int, int, int]]:
    """Return a key that sorts CPUs by the number of free ones on their NUMA node, then by number."""
    free = [(mask, (mask & pool).bit_count(), number) for number, mask in topology.numa_nodes]

    def key(cpus: int) -> tuple[int, int, int]:
        left, number = next((count, number) for mask, count, number in free if mask & cpus)
        return left, number, cpus & -cpus

    return key


class AffinityError(Exception):
    """The topology manager refuses the pod: its CPUs cannot be aligned as the policy demands."""


class ShortageError(Exception):
    """The CPU manager has fewer CPUs than the pod needs."""


def assign(topology: CpuTopology, policy: TopologyPolicy, pool: int, containers: Iterable[int]) -> int:
    """Return the CPUs that a kubelet takes from a pool of free ones for containers with these numbers of CPUs.

    Raises AffinityError and ShortageError.
    """
    taken = 0
    for count in containers:
        free = pool & ~taken
        chosen = _aligned(topology, policy, free, count)
        if free.bit_count() < count:
            raise ShortageError
        if chosen.bit_count() < count:  # best-effort, and no set of NUMA nodes has enough
            chosen = free
        taken |= take(topology, chosen, count)
    return taken


def _aligned(topology: CpuTopology, policy: TopologyPolicy, free: int, count: int) -> int:
    """Return the free CPUs of the NUMA nodes that the topology manager chooses. Raises AffinityError."""
    if policy is TopologyPolicy.NONE:
        return free
    fitting = ((size, cpus & free) for size, cpus in topology.choices if (cpus & free).bit_count() >= count)
    size, chosen = next(fitting, (0, 0))
    if policy is TopologyPolicy.SINGLE and size != 1:
        raise AffinityError
    if policy is TopologyPolicy.RESTRICTED and size != topology.least(count):
        raise AffinityError
    return chosen


def exclusive_cpus(spec: PodSpec) -> tuple[int, ...]:
    """Return how many CPUs each container of a pod gets exclusively; () if none does.

    Init containers are counted only with restartPolicy Always: the CPUs of others are used again by what follows.
    """
    containers = (*(each for each in spec.init_containers if each.restart_policy == "Always"), *spec.containers)
    if not is_guaranteed(spec):
        return ()
    counts = (amounts({**each.resources.limits, **each.resources.requests}).get(CPU, 0) for each in containers)
    return tuple(count // 1000 for count in counts if count and count % 1000 == 0)


def is_guaranteed(spec: PodSpec) -> bool:
    """Return whether every container's requests of cpu and memory equal its limits, which it must have."""
    return bool(spec.containers) and all(map(_is_fixed, (*spec.init_containers, *spec.containers)))


def _is_fixed(container: Container) -> bool:
    try:
        limits = amounts(container.resources.limits)
        requests = {**limits, **amounts(container.resources.requests)}
    except QuantityError:
        return False
    return all(limits.get(name) and limits[name] == requests[name] for name in (CPU, MEMORY))


@lru_cache(maxsize=1 << 16)
def outcome(topology: CpuTopology, policy: TopologyPolicy, pool: int, containers: tuple[int, ...]) -> int | None:
    """Return what `assign` returns, None if the pod is refused; cached, as most nodes of a cluster are alike."""
    try:
        return assign(topology, policy, pool, containers)
    except (AffinityError, ShortageError):
        return None
