"""The example of docs/simulate.md is what the command prints."""

from __future__ import annotations

import json
from pathlib import Path

from tests.scenario.scheduling.harness import group, node, pod
from tests.scenario.simulate.command import Simulate

PAGE = Path(__file__).parents[3] / "docs" / "simulate.md"
CONF = """
actions: "allocate, preempt"
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: predicates
  - name: nodeorder
"""


def test_the_output_of_the_example_is_the_documented_one(simulate: Simulate) -> None:
    urgent = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "urgent"}, "value": 9}
    objects = [
        node("n1", cpu="4"),
        node("n2", cpu="4"),
        urgent,
        group("nightly", 1, phase="Running"),
        *(pod(f"nightly-{at}", "nightly", on="n1", phase="Running", cpu="2") for at in range(2)),
        group("train", 3, phase="Inqueue", priorityClassName="urgent"),
        *(pod(f"train-{at}", "train", cpu="2") for at in range(3)),
        group("wide", 1, phase="Inqueue"),
        pod("wide-0", "wide", cpu="6"),
    ]
    for each in objects:
        each["metadata"].pop("uid", None)
        if "namespace" in each["metadata"]:
            each["metadata"]["namespace"] = "team"
    state = simulate.file("state.json", "\n".join(map(json.dumps, objects)))
    arguments = ("-f", state, "--conf", simulate.file("preempt.conf", CONF))
    page = PAGE.read_text(encoding="utf-8").replace("\n    ", "\n")
    assert simulate.run(*arguments).out in page
    assert simulate.run(*arguments, "-o", "json").out in page.replace(",\n ", ",")
