"""Volcano's definitions, which a real control plane may have already."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import yaml

from tests.contract.support import Cluster, Obj, established, eventually

_DEFINITIONS = Path(__file__).parents[3] / "config" / "crds"
_PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def with_volcano(cluster: Cluster) -> Cluster:
    """A cluster that serves Volcano's kinds."""
    for file in sorted(_DEFINITIONS.glob("*.yaml")):
        definition = yaml.safe_load(file.read_text())
        assert cluster.create(_PATH, definition).code in {201, 409}
        established(cluster, definition["metadata"]["name"])
        spec = definition["spec"]
        for version in spec["versions"]:  # the first request begins what watches are answered from
            eventually(partial(_listed, cluster, f"/apis/{spec['group']}/{version['name']}/{spec['names']['plural']}"))
    return cluster


def _listed(cluster: Cluster, path: str) -> Obj | None:
    """A list, once it is served."""
    answer = cluster.get(path)
    return answer.ok() if answer.code == 200 else None
