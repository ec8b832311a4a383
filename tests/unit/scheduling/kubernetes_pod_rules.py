"""Kubernetes' rules about other pods, in plain Python over manifests."""

from __future__ import annotations

from typing import Any, cast

from volcanoio.model.base import Manifest


class KubernetesRules:
    """Kubernetes' rules over manifests; `there` holds the pods that are on nodes, each with its node."""

    def __init__(self, nodes: list[Manifest]) -> None:
        self.nodes = {node["metadata"]["name"]: node["metadata"]["labels"] for node in nodes}
        self.there: list[tuple[Manifest, str]] = []

    def allows(self, pod: Manifest, node: str) -> bool:
        return all(
            rule(pod, node) for rule in (self.has_company, self.is_apart, self.is_let, self.is_even, self.has_ports)
        )

    def together(self, key: str, one: str, other: str) -> bool:
        return key in self.nodes[one] and self.nodes[one][key] == self.nodes[other].get(key)

    def has_company(self, pod: Manifest, node: str) -> bool:
        terms = required(pod, "podAffinity")
        company = [(other, at) for other, at in self.there if all(selects(one, other) for one in terms)]
        if any(one["topologyKey"] not in self.nodes[node] for one in terms):
            return False
        if all(any(self.together(one["topologyKey"], node, at) for _, at in company) for one in terms):
            return True
        anyone = any(one["topologyKey"] in self.nodes[at] for one in terms for _, at in company)
        return not anyone and all(selects(one, pod) for one in terms)

    def is_apart(self, pod: Manifest, node: str) -> bool:
        return not any(
            selects(one, other) and self.together(one["topologyKey"], node, at)
            for one in required(pod, "podAntiAffinity")
            for other, at in self.there
        )

    def is_let(self, pod: Manifest, node: str) -> bool:
        return not any(
            selects(one, pod) and self.together(one["topologyKey"], node, at)
            for other, at in self.there
            for one in required(other, "podAntiAffinity")
        )

    def is_even(self, pod: Manifest, node: str) -> bool:
        constraints = pod["spec"].get("topologySpreadConstraints", ())
        counting = [name for name, labels in self.nodes.items() if all(c["topologyKey"] in labels for c in constraints)]
        for one in constraints:
            key = one["topologyKey"]
            if key not in self.nodes[node]:
                return False
            numbers = {self.nodes[name][key]: 0 for name in counting}
            for other, at in self.there:
                if at in counting and selects(one, other):
                    numbers[self.nodes[at][key]] += 1
            least = min(numbers.values()) if len(numbers) >= max(one.get("minDomains", 1), 1) else 0
            number = numbers.get(self.nodes[node][key], 0) + selects(one, pod)
            if number - least > one["maxSkew"]:
                return False
        return True

    def has_ports(self, pod: Manifest, node: str) -> bool:
        return not (ports(pod) & {port for other, at in self.there if at == node for port in ports(other)})


def required(pod: Manifest, side: str) -> list[dict[str, Any]]:
    affinity = pod["spec"].get("affinity", {})
    return cast(
        "list[dict[str, Any]]", affinity.get(side, {}).get("requiredDuringSchedulingIgnoredDuringExecution", [])
    )


def selects(rule: dict[str, Any], pod: Manifest) -> bool:
    labels = pod["metadata"]["labels"]
    return all(labels.get(key) == value for key, value in rule["labelSelector"]["matchLabels"].items())


def ports(pod: Manifest) -> set[int]:
    return {port["hostPort"] for container in pod["spec"]["containers"] for port in container.get("ports", ())}
