"""Strategies by resource."""

from __future__ import annotations

from volcanoio.localcluster.apiserver.registry.kinds import definitions, policies, strategy
from volcanoio.localcluster.apiserver.registry.kinds.autoscaling import SCALERS
from volcanoio.localcluster.apiserver.registry.kinds.cluster import NAMESPACES, NODES, RUNTIME_CLASSES
from volcanoio.localcluster.apiserver.registry.kinds.configuration import CONFIG_MAPS, SECRETS
from volcanoio.localcluster.apiserver.registry.kinds.devices.claims import (
    DEVICE_CLASSES,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
)
from volcanoio.localcluster.apiserver.registry.kinds.devices.slices import RESOURCE_SLICES
from volcanoio.localcluster.apiserver.registry.kinds.events import EVENTS
from volcanoio.localcluster.apiserver.registry.kinds.networking import (
    ENDPOINTS,
    INGRESS_CLASSES,
    INGRESSES,
    POLICIES,
    SLICES,
)
from volcanoio.localcluster.apiserver.registry.kinds.pods import PODS
from volcanoio.localcluster.apiserver.registry.kinds.policies import LIMIT_RANGES, QUOTAS
from volcanoio.localcluster.apiserver.registry.kinds.rbac import RBAC
from volcanoio.localcluster.apiserver.registry.kinds.scheduling import NATIVE_GROUPS, PRIORITY_CLASSES
from volcanoio.localcluster.apiserver.registry.kinds.services import SERVICES
from volcanoio.localcluster.apiserver.registry.kinds.storage import CLAIMS, STORAGE_CLASSES, VOLUMES
from volcanoio.localcluster.apiserver.registry.kinds.strategy import IDLE, Strategy
from volcanoio.localcluster.apiserver.registry.kinds.webhooks import WEBHOOKS
from volcanoio.localcluster.apiserver.registry.kinds.workloads import WORKLOADS

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
    "leases.coordination.k8s.io": strategy.LEASES,
    definitions.NAME: definitions.DEFINITIONS,
    policies.NAME: policies.BUDGETS,
    "endpoints": ENDPOINTS,
    "endpointslices.discovery.k8s.io": SLICES,
    "events": EVENTS,
    "horizontalpodautoscalers.autoscaling": SCALERS,
    "ingresses.networking.k8s.io": INGRESSES,
    "ingressclasses.networking.k8s.io": INGRESS_CLASSES,
    "networkpolicies.networking.k8s.io": POLICIES,
    "runtimeclasses.node.k8s.io": RUNTIME_CLASSES,
    "deviceclasses.resource.k8s.io": DEVICE_CLASSES,
    "resourceclaims.resource.k8s.io": RESOURCE_CLAIMS,
    "resourceclaimtemplates.resource.k8s.io": RESOURCE_CLAIM_TEMPLATES,
    "resourceslices.resource.k8s.io": RESOURCE_SLICES,
    **RBAC,
    **WORKLOADS,
    **NATIVE_GROUPS,
    **IDLE,
    **WEBHOOKS,
}
"""Strategies by `plural.group`; other kinds are stored unchanged."""
