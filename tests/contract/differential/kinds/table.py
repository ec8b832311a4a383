"""All kinds that random scripts write."""

from __future__ import annotations

from tests.contract.differential.kind import Kind
from tests.contract.differential.kinds.core import CORE
from tests.contract.differential.kinds.custom import CUSTOM
from tests.contract.differential.kinds.networking import NETWORKING
from tests.contract.differential.kinds.policy import POLICY
from tests.contract.differential.kinds.rbac import RBAC
from tests.contract.differential.kinds.storage import STORAGE
from tests.contract.differential.kinds.workloads import WORKLOADS

KINDS: tuple[Kind, ...] = (*CORE, *CUSTOM, *NETWORKING, *POLICY, *RBAC, *STORAGE, *WORKLOADS)
APART = (
    {"services", "endpoints", "endpointslices.v1.discovery.k8s.io"},
    {"deployments.v1.apps", "replicasets.v1.apps", "pods"},
    {"events", "events.v1.events.k8s.io"},
)
"""Of these kinds a script has one at most: a controller would write the others."""
