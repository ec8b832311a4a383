"""Volcano's definitions, which a real control plane may have already."""

from __future__ import annotations

from pathlib import Path

import yaml

from tests.contract.support import Cluster, established

_DEFINITIONS = Path(__file__).parents[3] / "config" / "crds"
_PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def with_volcano(cluster: Cluster) -> Cluster:
    """A cluster that serves Volcano's kinds."""
    for file in sorted(_DEFINITIONS.glob("*.yaml")):
        definition = yaml.safe_load(file.read_text())
        assert cluster.create(_PATH, definition).code in {201, 409}
        established(cluster, definition["metadata"]["name"])
    return cluster
