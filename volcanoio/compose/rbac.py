"""RBAC of the three components: rights that follow from what each one watches and writes.

`COMPONENTS` names them. A right that holds for one object, or for the component's own namespace only, goes into a Role;
all others go into a ClusterRole. `render` writes both as a file; `make rbac` keeps those of config/rbac up to date.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import yaml

from volcanoio.compose.controllers import installed_controllers
from volcanoio.engine.scheduling.config.profile import watches_of
from volcanoio.framework import entrypoints
from volcanoio.framework.arguments import ArgumentError
from volcanoio.framework.controller import Rule
from volcanoio.framework.scheduling.points import PluginFactory
from volcanoio.model import kinds
from volcanoio.model.base import Manifest
from volcanoio.runtime.controllers import job_figures
from volcanoio.runtime.loading.registry import Registry
from volcanoio.runtime.scheduler.scheduler import WATCHED

VERBS = ("get", "list", "watch", "create", "update", "patch", "delete")
"""Verbs in the order in which they are written."""
NAMESPACE = "volcano-system"
_WATCH = ("list", "watch")
_SCHEDULING, _ADMISSION = "scheduling.volcano.sh", "admissionregistration.k8s.io"
_RESOURCE = "resource.k8s.io"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rights:
    """Rights of a component: `cluster` everywhere, `own` in its own namespace only."""

    cluster: tuple[Rule, ...]
    own: tuple[Rule, ...] = ()


def _lease(name: str) -> tuple[Rule, ...]:
    """Return the rights of leader election; `create` cannot be limited to a name."""
    return (
        Rule("coordination.k8s.io", ("leases",), ("create",)),
        Rule("coordination.k8s.io", ("leases",), ("get", "update"), (name,)),
    )


_SCHEDULER_WRITES = (
    Rule("", ("pods/binding",), ("create",)),  # binds
    Rule("", ("pods",), ("get", "patch", "delete")),  # unknown outcomes of binds; gates of queues; evictions
    Rule("", ("pods/status",), ("patch",)),  # conditions of evicted and of unschedulable pods
    Rule(_SCHEDULING, ("podgroups",), ("get", "patch")),  # read before binds; status: there is no status subresource
    Rule("scheduling.k8s.io", ("podgroups",), ("get",)),  # native groups, before binds
    Rule("scheduling.k8s.io", ("podgroups/status",), ("patch",)),  # and their conditions
    Rule(_SCHEDULING, ("queues",), ("get", "create")),  # root and the default queue
    Rule(_SCHEDULING, ("queues/status",), ("patch",)),
    Rule("shard.volcano.sh", ("nodeshards/status",), ("patch",)),  # nodes in use, with --scheduler-sharding-mode
    Rule("", ("persistentvolumeclaims", "persistentvolumes"), ("get", "patch")),  # volumes, before a bind
    Rule("", ("nodes",), ("get", "patch")),  # locks of nodes for device plugins, before a bind
    Rule(_RESOURCE, ("deviceclasses", "resourceclaims", "resourceslices"), _WATCH),  # if predicates allocates devices
    Rule(_RESOURCE, ("resourceclaims",), ("get", "patch")),  # finalizers of claims, before a bind
    Rule(_RESOURCE, ("resourceclaims",), ("create", "delete")),  # claims for the extended resources of pods
    Rule(_RESOURCE, ("resourceclaims/status", "resourceclaims/binding"), ("patch",)),  # allocations and reservations
    Rule("", ("events",), ("create", "patch")),
)
"""Rights to write, and to read single objects; what the scheduler watches is derived from its plugins."""


def scheduler_rights(registry: Registry) -> Rights:
    """Return the rights of the scheduler with any configuration of the installed plugins. Raises PluginError."""
    watched = {kind.resource for kind in (*WATCHED, *kinds.NATIVE_GROUPS, kinds.NODE_SHARD)}
    for factory in registry.factories(entrypoints.SCHEDULER_PLUGINS).values():
        watched.update(_watches(factory))
    read = (kinds.BY_RESOURCE[resource] for resource in watched)
    rules = (*(Rule(kind.group, (kind.plural,), _WATCH) for kind in read), *_SCHEDULER_WRITES)
    others = Rule("coordination.k8s.io", ("leases",), ("list",))  # schedulers that take the same pods or nodes
    named = Rule("", ("configmaps",), ("get", *_WATCH), ("volcano-scheduler-configmap",))  # a watch of that name alone
    own = (*_lease("volcano"), others, named)
    return Rights(cluster=merge_rules(rules), own=own)


def _watches(factory: PluginFactory) -> tuple[str, ...]:
    """Return what a plugin reads with its default arguments, which switch everything on that it has."""
    try:
        return watches_of(factory({}))
    except ArgumentError:  # it cannot be constructed without arguments: what its class declares
        return watches_of(factory)


def controller_rights(registry: Registry) -> Rights:
    """Return the rights of all installed controllers and of their policies' reads. Raises PluginError."""
    declared = [rule for controller in installed_controllers(registry) for rule in controller.rules]
    declared += job_figures.RULES
    for factory in registry.factories(entrypoints.LIFECYCLE_POLICIES).values():
        for resource in getattr(factory, "indexes", ()):
            kind = kinds.READABLE[resource]
            verbs = ("list",) if kind in kinds.POLLED else ("get", "list", "watch")
            declared.append(Rule(kind.group, (kind.plural,), verbs))
    named = tuple(rule for rule in declared if rule.names)
    cluster = merge_rules(rule for rule in declared if not rule.names)
    return Rights(cluster=(*cluster, *named), own=_lease("vc-controller-manager"))


def admission_rights(_registry: Registry) -> Rights:
    """Return the rights of the webhooks: what they look up, and their certificates."""
    return Rights(
        cluster=merge_rules(
            (
                Rule(_SCHEDULING, ("queues",), _WATCH),
                Rule(_SCHEDULING, ("podgroups",), ("get", "list")),  # of pods; of a queue that is deleted
                Rule("scheduling.k8s.io", ("podgroups", "workloads"), ("get", "list")),  # native groups of pods
                Rule("flow.volcano.sh", ("jobtemplates",), ("get", "list")),  # queues of a JobFlow's jobs
                Rule("", ("namespaces",), ("get",)),  # the default queue of PodGroups
                Rule("authorization.k8s.io", ("subjectaccessreviews",), ("create",)),  # rights to use queues
                Rule(
                    _ADMISSION,
                    ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"),
                    (*_WATCH, "patch"),
                ),
            )
        ),
        own=(
            Rule("", ("secrets",), ("create",)),
            Rule("", ("secrets",), ("get", "patch"), ("volcano-admission-secret",)),
        ),
    )


COMPONENTS: Mapping[str, Callable[[Registry], Rights]] = {
    "scheduler": scheduler_rights,
    "controllers": controller_rights,
    "admission": admission_rights,
}
"""The components, by the name that follows `volcano-` in the cluster."""


def merge_rules(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """Combine rules without names: each resource once, resources of a group that need the same verbs together."""
    verbs: dict[tuple[str, str], set[str]] = {}
    for rule in rules:
        for resource in rule.resources:
            verbs.setdefault((rule.group, resource), set()).update(rule.verbs)
    alike: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (group, resource), wanted in sorted(verbs.items()):
        in_order = tuple(sorted(wanted, key=lambda verb: (VERBS.index(verb) if verb in VERBS else len(VERBS), verb)))
        alike.setdefault((group, in_order), []).append(resource)
    return tuple(Rule(group, tuple(resources), wanted) for (group, wanted), resources in alike.items())


def roles(component: str, registry: Registry) -> list[Manifest]:
    """Return the ClusterRole and the Role of a component. Raises PluginError."""
    rights = COMPONENTS[component](registry)
    name = f"volcano-{component}"
    found = [_role("ClusterRole", {"name": name}, rights.cluster)]
    if rights.own:
        found.append(_role("Role", {"name": name, "namespace": NAMESPACE}, rights.own))
    return found


def _role(kind: str, metadata: Manifest, rules: Iterable[Rule]) -> Manifest:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": kind,
        "metadata": metadata,
        "rules": [
            {
                "apiGroups": [rule.group],
                "resources": list(rule.resources),
                **({"resourceNames": list(rule.names)} if rule.names else {}),
                "verbs": list(rule.verbs),
            }
            for rule in rules
        ],
    }


def render(component: str, registry: Registry) -> str:
    """Return the roles of a component as a file. Raises PluginError."""
    text = yaml.safe_dump_all(roles(component, registry), sort_keys=False, default_flow_style=None, width=120)
    return f"# Rights of the {component}. Generated by `make rbac` from what is declared; do not edit.\n{text}"
