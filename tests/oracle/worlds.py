"""Random small clusters as manifests; `Mix` chooses what they contain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import strategies as st

from tests.scenario.scheduling.harness import group, node, pod, queue
from volcanoio.model.base import Manifest
from volcanoio.model.resources import amounts

HOST, ZONE = "kubernetes.io/hostname", "zone"
GPU = "nvidia.com/gpu"
MI = 1 << 20
Draw = Any
"""Hypothesis' function that draws a value from a strategy."""


@dataclass(frozen=True)
class Mix:
    """`rules`: pods have terms about other pods, spread and ports. `running`: jobs have tasks on nodes already.

    `limits`: queues have capability, deserved, guarantee; `tree`: and parents.
    `pod_annotations` and the like are drawn for each, by key, None for none.
    """

    rules: bool = False
    running: bool = False
    limits: bool = False
    tree: bool = False
    jobs: int = 5
    pod_annotations: dict[str, st.SearchStrategy[str | None]] = field(default_factory=dict)
    job_annotations: dict[str, st.SearchStrategy[str | None]] = field(default_factory=dict)
    queue_annotations: dict[str, st.SearchStrategy[str | None]] = field(default_factory=dict)
    queue_specs: dict[str, st.SearchStrategy[Any]] = field(default_factory=dict)
    node_labels: dict[str, st.SearchStrategy[str | None]] = field(default_factory=dict)


CLASSES: list[Manifest] = [
    {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name, "uid": name},
        "value": at,
    }
    for name, at in (("low", 1), ("mid", 5), ("high", 9))
]
APPS = st.sampled_from(["a", "b", "c"])
KEYS = st.sampled_from([HOST, ZONE])
RARELY = st.sampled_from([False] * 6 + [True])
TERMS = st.builds(lambda key, app: {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}, KEYS, APPS)
WEIGHTED = st.builds(lambda weight, term: {"weight": weight, "podAffinityTerm": term}, st.integers(1, 20), TERMS)
REQUIRED, PREFERRED = (f"{kind}DuringSchedulingIgnoredDuringExecution" for kind in ("required", "preferred"))
SIDES = st.fixed_dictionaries(
    {},
    optional={
        REQUIRED: st.lists(TERMS, min_size=1, max_size=2),
        PREFERRED: st.lists(WEIGHTED, min_size=1, max_size=2),
    },
)
SPREAD = st.builds(
    lambda key, app, skew, domains, more: {
        "topologyKey": key,
        "maxSkew": skew,
        "labelSelector": {"matchLabels": {"app": app}},
        **({"minDomains": domains} if domains and more["whenUnsatisfiable"] == "DoNotSchedule" else {}),
        **more,
    },
    KEYS,
    APPS,
    st.integers(1, 2),
    st.sampled_from([None, None, 2, 3]),
    st.fixed_dictionaries(
        {"whenUnsatisfiable": st.sampled_from(["DoNotSchedule", "ScheduleAnyway"])},
        optional={
            "nodeTaintsPolicy": st.sampled_from(["Honor", "Ignore"]),
            "nodeAffinityPolicy": st.sampled_from(["Honor", "Ignore"]),
        },
    ),
)
PORTS = st.fixed_dictionaries(
    {"containerPort": st.just(80), "hostPort": st.sampled_from([80, 81])},
    optional={"hostIP": st.sampled_from(["10.0.0.1", "10.0.0.2"]), "protocol": st.sampled_from(["UDP"])},
)
RULES = st.fixed_dictionaries(
    {},
    optional={
        "podAffinity": SIDES,
        "podAntiAffinity": SIDES,
        "topologySpreadConstraints": st.lists(SPREAD, min_size=1, max_size=2),
        "port": PORTS,
    },
)
TAINTS = st.sampled_from(
    [[], [], [], [{"key": "hard", "effect": "NoSchedule"}], [{"key": "soft", "effect": "PreferNoSchedule"}]]
)
TOLERATIONS = st.sampled_from([[], [], [{"key": "hard", "operator": "Exists"}], [{"operator": "Exists"}]])
SELECTORS = st.sampled_from([{}, {}, {}, {"disk": "ssd"}])
EXPRESSIONS = st.sampled_from(
    [
        {"key": "disk", "operator": "In", "values": ["ssd"]},
        {"key": ZONE, "operator": "NotIn", "values": ["x"]},
        {"key": ZONE, "operator": "Exists"},
        {"key": "rank", "operator": "Gt", "values": ["2"]},
    ]
)
NODE_AFFINITY = st.fixed_dictionaries(
    {},
    optional={
        REQUIRED: st.lists(EXPRESSIONS, min_size=1, max_size=2).map(
            lambda found: {"nodeSelectorTerms": [{"matchExpressions": [each]} for each in found]}
        ),
        PREFERRED: st.lists(st.tuples(st.integers(1, 9), EXPRESSIONS), min_size=1, max_size=2).map(
            lambda found: [{"weight": weight, "preference": {"matchExpressions": [each]}} for weight, each in found]
        ),
    },
)


@st.composite
def worlds(draw: Draw, mix: Mix) -> list[Manifest]:
    """Draw the objects of a cluster."""
    nodes = [one_node(draw, mix, at) for at in range(draw(st.sampled_from([3, 2, 4, 1, 5])))]
    queues = [one_queue(draw, mix, at) for at in range(3)]
    if mix.tree:
        queues.append(queue("root", reclaimable=False))
    room = Room(nodes)
    objects: list[Manifest] = [*CLASSES, *nodes, *queues]
    for at in range(draw(st.integers(0, 3))):
        old = _pod(draw, mix, f"old-{at}", "")
        if room.place(old, draw(st.integers(0, 9)), releasing=draw(st.booleans())):
            objects.append(old)
    for at in range(draw(st.sampled_from(range(mix.jobs, 0, -1)))):
        objects += _job(draw, mix, at, room, [f"q{number}" for number in range(3)])
    return objects


LABELS = st.fixed_dictionaries(
    {}, optional={"disk": st.just("ssd"), ZONE: st.sampled_from(["x", "y"]), "rank": st.sampled_from(["1", "3"])}
)
AMOUNTS = st.fixed_dictionaries(
    {}, optional={"cpu": st.integers(0, 4).map(str), "memory": st.integers(1, 4).map(lambda number: f"{number}Gi")}
)
DEMANDS = st.sampled_from([None, {"cpu": "0"}, {"cpu": "500m"}, {"cpu": "2"}, {"cpu": "6", "memory": "1Gi"}])
PHASES = st.sampled_from(["Running", "Running", "Pending"])


class Room:
    """The free resources of nodes, on which pods are put where they fit."""

    def __init__(self, nodes: Sequence[Manifest] = ()) -> None:
        self._left = {each["metadata"]["name"]: amounts(each["status"]["allocatable"]) for each in nodes}

    def place(self, pod: Manifest, number: int, *, releasing: bool = False, phase: str = "Running") -> bool:
        """Put the pod on one of the nodes if it fits there, and return whether it does."""
        name = sorted(self._left)[number % len(self._left)]
        left = self._left[name]
        requests = {"pods": 1, **amounts(pod["spec"]["containers"][0]["resources"]["requests"])}
        if any(left.get(resource, 0) < amount for resource, amount in requests.items()):
            return False
        for resource, amount in requests.items():
            left[resource] -= amount
        pod["spec"]["nodeName"] = name
        pod["status"]["phase"] = phase
        if releasing:
            pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        return True


def drawn(draw: Draw, strategies: dict[str, st.SearchStrategy[Any]]) -> dict[str, Any]:
    return {key: value for key, each in strategies.items() if (value := draw(each)) is not None}


def one_node(draw: Draw, mix: Mix, at: int) -> Manifest:
    name = f"n{at}"
    labels = {HOST: name, **draw(LABELS)}
    labels |= drawn(draw, mix.node_labels)
    gpus = draw(st.sampled_from([0, 0, 2]))
    return node(
        name,
        cpu=str(draw(st.sampled_from([8, 4, 2]))),
        memory=f"{draw(st.integers(1, 8))}Gi",
        pods=str(draw(st.sampled_from([110, 110, 3]))),
        labels=labels,
        taints=draw(TAINTS),
        unschedulable=draw(RARELY),
        **({GPU: str(gpus)} if gpus else {}),
    )


def one_queue(draw: Draw, mix: Mix, at: int) -> Manifest:
    spec: dict[str, Any] = {"weight": draw(st.integers(1, 4)), "priority": draw(st.sampled_from([0, 0, 5]))}
    if limit := draw(st.sampled_from([None, None, 2, 9])):
        spec["capability"] = {"cpu": str(limit)}
    if mix.limits:
        for key in ("deserved", "guarantee"):
            found = draw(AMOUNTS)
            if found:
                spec[key] = found if key == "deserved" else {"resource": found}
        if draw(st.booleans()):
            spec["reclaimable"] = draw(st.booleans())
    if mix.tree:
        spec["parent"] = draw(st.sampled_from(["root", "root", *[f"q{above}" for above in range(at)]]))
    spec |= drawn(draw, mix.queue_specs)
    made = queue(f"q{at}", **spec)
    made["metadata"]["annotations"] = drawn(draw, mix.queue_annotations)
    made["status"]["state"] = "Closed" if draw(RARELY) else "Open"
    return made


def _pod(draw: Draw, mix: Mix, name: str, owner: str) -> Manifest:
    requests: dict[str, str] = {}
    if cpu := draw(st.sampled_from(["250m", "500m", "1", "1500m", ""])):
        requests["cpu"] = cpu
    if memory := draw(st.sampled_from(["128Mi", "", "512Mi", "1Gi"])):
        requests["memory"] = memory
    if draw(RARELY):
        requests[GPU] = "1"
    spec: dict[str, Any] = {
        "priority": draw(st.sampled_from([1, 1, 5])),
        "nodeSelector": draw(SELECTORS),
        "tolerations": draw(TOLERATIONS),
    }
    affinity: dict[str, Any] = {}
    if draw(RARELY):
        affinity["nodeAffinity"] = draw(NODE_AFFINITY)
    made = pod(name, owner, role=draw(st.sampled_from(["", "a", "b"])) if owner else "", **requests)
    if mix.rules:
        rules = draw(RULES)
        if port := rules.pop("port", None):
            made["spec"]["containers"][0]["ports"] = [port]
        if spread := rules.pop("topologySpreadConstraints", None):
            spec["topologySpreadConstraints"] = spread
        affinity |= rules
        made["metadata"]["labels"] = {"app": draw(APPS)}
    if affinity:
        spec["affinity"] = affinity
    if draw(RARELY):
        spec["preemptionPolicy"] = "Never"
    made["spec"] |= spec
    made["metadata"]["annotations"] |= drawn(draw, mix.pod_annotations)
    return made


def _job(draw: Draw, mix: Mix, at: int, room: Room, queues: list[str]) -> list[Manifest]:
    pods: list[Manifest] = []
    for run in range(draw(st.sampled_from([1, 2]))):
        model = _pod(draw, mix, "model", f"j{at}")
        places = st.sampled_from([-1, -1, -1, 0, 1, 2, 3] if mix.running else [-1])
        for index, place in enumerate(draw(st.lists(places, min_size=1, max_size=4))):
            one = copy_of(model, f"j{at}-r{run}-{index}")
            if place >= 0:
                room.place(one, place, releasing=draw(RARELY), phase=draw(PHASES))
            pods.append(one)
    spec: dict[str, Any] = {"priorityClassName": draw(st.sampled_from(["low", "mid", "high"]))}
    if draw(RARELY):
        spec["minTaskMember"] = {"a": draw(st.integers(1, 2))}
    if demand := draw(DEMANDS):
        spec["minResources"] = demand
    started = any(one["spec"]["nodeName"] for one in pods)
    phase = draw(st.sampled_from(["Running", "Running", "Inqueue"] if started else ["Inqueue", "Pending", "Pending"]))
    size = len(pods)
    minimum = draw(st.sampled_from([1, 2, 0, size, size - 1, size + 1]))
    owner = group(f"j{at}", max(minimum, 0), queue=draw(st.sampled_from(queues)), phase=phase, **spec)
    owner["metadata"]["annotations"] = drawn(draw, mix.job_annotations)
    return [owner, *pods]


def copy_of(model: Manifest, name: str) -> Manifest:
    meta = {**model["metadata"], "name": name, "uid": f"ns-{name}"}
    return {**model, "metadata": meta, "spec": dict(model["spec"]), "status": dict(model["status"])}


def again(draw: Draw, mix: Mix, at: int, queues: int = 3) -> list[Manifest]:
    """Draw another job with pending pods, for a cluster over several cycles."""
    mix = replace(mix, running=False)
    return _job(draw, mix, at, Room(), [f"q{number}" for number in range(queues)])
