"""Which controllers there are."""

from __future__ import annotations

from volcanoio.localcluster.controllers.budgets.controller import BudgetController
from volcanoio.localcluster.controllers.daemonsets.controller import DaemonSetController
from volcanoio.localcluster.controllers.deployments.controller import DeploymentController
from volcanoio.localcluster.controllers.endpoints.controller import EndpointsController
from volcanoio.localcluster.controllers.frame.contract import Controller
from volcanoio.localcluster.controllers.jobs.controller import JobController
from volcanoio.localcluster.controllers.kinds import REPLICATION_CONTROLLER
from volcanoio.localcluster.controllers.nodes.collection import PodCollector
from volcanoio.localcluster.controllers.nodes.eviction import TaintEvictionController
from volcanoio.localcluster.controllers.nodes.health import NodeHealthController
from volcanoio.localcluster.controllers.replicasets.controller import ReplicaSetController
from volcanoio.localcluster.controllers.statefulsets.controller import StatefulSetController


def controllers() -> tuple[Controller, ...]:
    """One of each; a new one is added here."""
    return (
        ReplicaSetController(),
        ReplicaSetController(REPLICATION_CONTROLLER, "replication-controller"),
        DeploymentController(),
        StatefulSetController(),
        DaemonSetController(),
        JobController(),
        BudgetController(),
        EndpointsController(),
        NodeHealthController(),
        TaintEvictionController(),
        PodCollector(),
    )
