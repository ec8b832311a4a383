"""Which kinds have particulars."""

from __future__ import annotations

from volcanoio.localcluster.apiserver.kinds import budgets, definitions, plain
from volcanoio.localcluster.apiserver.kinds.autoscaling import SCALERS
from volcanoio.localcluster.apiserver.kinds.cluster import NAMESPACES, NODES
from volcanoio.localcluster.apiserver.kinds.configuration import CONFIG_MAPS, SECRETS
from volcanoio.localcluster.apiserver.kinds.endpoints import ENDPOINTS, SLICES
from volcanoio.localcluster.apiserver.kinds.events import EVENTS
from volcanoio.localcluster.apiserver.kinds.idle import IDLE
from volcanoio.localcluster.apiserver.kinds.ingresses import INGRESS_CLASSES, INGRESSES
from volcanoio.localcluster.apiserver.kinds.networkpolicies import POLICIES
from volcanoio.localcluster.apiserver.kinds.pods import PODS
from volcanoio.localcluster.apiserver.kinds.priorities import PRIORITY_CLASSES
from volcanoio.localcluster.apiserver.kinds.quotas import LIMIT_RANGES, QUOTAS
from volcanoio.localcluster.apiserver.kinds.rbac import RBAC
from volcanoio.localcluster.apiserver.kinds.runtimeclasses import RUNTIME_CLASSES
from volcanoio.localcluster.apiserver.kinds.services import SERVICES
from volcanoio.localcluster.apiserver.kinds.storage import CLAIMS, STORAGE_CLASSES, VOLUMES
from volcanoio.localcluster.apiserver.kinds.strategy import Strategy
from volcanoio.localcluster.apiserver.kinds.webhooks import WEBHOOKS
from volcanoio.localcluster.apiserver.kinds.workloads import WORKLOADS

STRATEGIES: dict[str, Strategy] = {
    "pods": PODS,
    "namespaces": NAMESPACES,
    "nodes": NODES,
    "services": SERVICES,
    "configmaps": CONFIG_MAPS,
    "secrets": SECRETS,
    "persistentvolumes": VOLUMES,
    "persistentvolumeclaims": CLAIMS,
    "storageclasses.storage.k8s.io": STORAGE_CLASSES,
    "priorityclasses.scheduling.k8s.io": PRIORITY_CLASSES,
    "resourcequotas": QUOTAS,
    "limitranges": LIMIT_RANGES,
    "leases.coordination.k8s.io": plain.LEASES,
    definitions.NAME: definitions.DEFINITIONS,
    budgets.NAME: budgets.BUDGETS,
    "endpoints": ENDPOINTS,
    "endpointslices.discovery.k8s.io": SLICES,
    "events": EVENTS,
    "horizontalpodautoscalers.autoscaling": SCALERS,
    "ingresses.networking.k8s.io": INGRESSES,
    "ingressclasses.networking.k8s.io": INGRESS_CLASSES,
    "networkpolicies.networking.k8s.io": POLICIES,
    "runtimeclasses.node.k8s.io": RUNTIME_CLASSES,
    **RBAC,
    **WORKLOADS,
    **IDLE,
    **WEBHOOKS,
}
"""By `plural.group`; kinds that are not listed are stored as they come."""
