"""The CustomResourceDefinition of each of our kinds: names, columns and subresources as a table.

Values: Volcano `config/crd/volcano/bases/*.yaml`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from volcanoio.model import kinds
from volcanoio.model.base import Manifest
from volcanoio.model.crds.schema import object_schema
from volcanoio.model.kinds import Kind


@dataclass(frozen=True, slots=True)
class Column:
    """One printer column; priority 1 is shown with `-o wide` only."""

    name: str
    path: str
    type: str = "string"
    priority: int = 0

    def manifest(self) -> dict[str, Any]:
        """As it stands in the definition."""
        result: dict[str, Any] = {"name": self.name, "type": self.type, "jsonPath": self.path}
        return {**result, "priority": self.priority} if self.priority else result


@dataclass(frozen=True, slots=True)
class Definition:
    """One kind's row. Whether there is a status subresource is the Kind's to say."""

    kind: Kind
    short_names: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()

    @property
    def file_name(self) -> str:
        """The file under `config/crds/`, named as Volcano's."""
        return f"{self.kind.group}_{self.kind.plural}.yaml"

    def manifest(self) -> Manifest:
        """The CustomResourceDefinition."""
        names: dict[str, Any] = {
            "kind": self.kind.kind,
            "listKind": f"{self.kind.kind}List",
            "plural": self.kind.plural,
            "singular": self.kind.kind.lower(),
        }
        if self.short_names:
            names["shortNames"] = list(self.short_names)
        version: dict[str, Any] = {
            "name": self.kind.version,
            "served": True,
            "storage": True,
            "schema": {"openAPIV3Schema": object_schema(self.kind.type)},
            "subresources": {"status": {}} if self.kind.status_subresource else {},
        }
        if self.columns:
            version["additionalPrinterColumns"] = [column.manifest() for column in self.columns]
        return {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {
                "name": self.kind.resource,
                "annotations": {"helm.sh/resource-policy": "keep"},
            },
            "spec": {
                "group": self.kind.group,
                "names": names,
                "scope": "Namespaced" if self.kind.namespaced else "Cluster",
                "versions": [version],
            },
        }


_AGE = Column("AGE", ".metadata.creationTimestamp", "date")
_QUEUE = Column("QUEUE", ".spec.queue", priority=1)

DEFINITIONS: tuple[Definition, ...] = (
    Definition(
        kinds.JOB,
        short_names=("vcjob", "vj"),
        columns=(
            Column("STATUS", ".status.state.phase"),
            Column("minAvailable", ".status.minAvailable", "integer"),
            Column("RUNNINGS", ".status.running", "integer"),
            _AGE,
            _QUEUE,
        ),
    ),
    Definition(
        kinds.CRON_JOB,
        short_names=("cronvcjob", "cronvj"),
        columns=(  # Volcano has none; these are those of Kubernetes' own CronJob
            Column("SCHEDULE", ".spec.schedule"),
            Column("TIMEZONE", ".spec.timeZone"),
            Column("SUSPEND", ".spec.suspend", "boolean"),
            Column("LAST SCHEDULE", ".status.lastScheduleTime", "date"),
            _AGE,
        ),
    ),
    Definition(
        kinds.JOB_FLOW,
        short_names=("jf",),
        columns=(
            Column("Status", ".status.state.phase"),
            Column("Age", ".metadata.creationTimestamp", "date"),
        ),
    ),
    Definition(kinds.JOB_TEMPLATE, short_names=("jt",)),
    Definition(kinds.COMMAND),
    Definition(
        kinds.POD_GROUP,
        short_names=("pg", "podgroup-v1beta1"),
        columns=(
            Column("STATUS", ".status.phase"),
            Column("minMember", ".spec.minMember", "integer"),
            Column("RUNNINGS", ".status.running", "integer"),
            _AGE,
            _QUEUE,
        ),
    ),
    Definition(
        kinds.QUEUE,
        short_names=("q", "queue-v1beta1"),
        columns=(Column("PARENT", ".spec.parent"),),
    ),
)
