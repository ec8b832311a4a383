"""Required pod affinity, anti-affinity, spread and host ports, compared with Kubernetes' rules in plain Python."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.scenario.scheduling.harness import World, group
from tests.scenario.scheduling.podrules import HOST, ZONE, apart, asking, near, spread, term, zoned
from tests.unit.scheduling.kubernetes_pod_rules import KubernetesRules

APPS = st.sampled_from(["a", "b", "c"])
KEYS = st.sampled_from([HOST, ZONE])
TERMS = st.lists(st.builds(lambda key, app: term(key, app=app), KEYS, APPS), min_size=1, max_size=2)
AFFINITY = st.one_of(
    st.none(),
    TERMS.map(lambda terms: apart(*terms)),
    TERMS.map(lambda terms: near(*terms)),
    st.tuples(TERMS, TERMS).map(lambda both: apart(*both[0]) | near(*both[1])),
)
CONSTRAINTS = st.lists(
    st.builds(
        lambda key, skew, domains, app: spread(
            key,
            skew,
            labelSelector={"matchLabels": {"app": app}},
            **({"minDomains": domains} if domains else {}),
        ),
        KEYS,
        st.integers(1, 2),
        st.sampled_from([None, None, 3]),
        APPS,
    ),
    max_size=2,
)
PODS = st.lists(
    st.fixed_dictionaries(
        {
            "labels": APPS.map(lambda app: {"app": app}),
            "affinity": AFFINITY,
            "constraints": CONSTRAINTS.map(tuple),
            "port": st.sampled_from([None, None, None, {"hostPort": 80}]),
        }
    ),
    min_size=1,
    max_size=8,
)
ZONES = st.lists(st.sampled_from(["x", "y", ""]), min_size=1, max_size=5)


@examples(250)
@given(zones=ZONES, specs=PODS, count=st.integers(1, 3))
def test_a_pod_is_bound_exactly_where_kubernetes_rules_allow_it(
    zones: list[str], specs: list[dict[str, Any]], count: int
) -> None:
    nodes = [zoned(f"n{at}", zone, cpu="64") for at, zone in enumerate(zones)]
    pods = {
        f"p{number}-{at}": asking(f"p{number}-{at}", "pg", **{key: value for key, value in spec.items() if value})
        for number, spec in enumerate(specs)
        for at in range(count)
    }
    world, rules = World(*nodes, group("pg", 1, phase="Inqueue"), *pods.values()), KubernetesRules(nodes)
    while True:
        before = len(world.requests)
        world.run()
        for bind in world.requests[before:]:
            assert rules.allows(pods[bind.name], bind.node), (bind.name, bind.node, rules.there)
            rules.there.append((pods[bind.name], bind.node))
        if len(world.requests) == before:
            break
    for name, pod in pods.items():
        if name not in world.binds:
            assert not any(rules.allows(pod, node) for node in rules.nodes), name
