"""Namespaces, nodes and RuntimeClasses: defaults and rules.

RuntimeClasses: Kubernetes' pkg/apis/node/validation.
"""

from __future__ import annotations

from typing import Final

from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.registry.kinds.rules import NO_BLOCK, immutable, is_block, listed, spec_of
from volcanoio.localcluster.apiserver.registry.kinds.strategy import Strategy
from volcanoio.model.base import Manifest
from volcanoio.model.validation.containers import resource_errors
from volcanoio.model.validation.dns_names import label_errors, label_rule, qualified_rule, value_rule
from volcanoio.model.validation.field_errors import FieldError, forbidden, invalid, required, shown, unsupported
from volcanoio.model.validation.placement import toleration_errors

SYSTEM_NAMESPACES: Final = ("default", "kube-system", "kube-public", "kube-node-lease", "volcano-system")
"""Namespaces created at the first start."""

PROTECTED_NAMESPACES: Final = frozenset({"default", "kube-system", "kube-public"})
"""Namespaces that cannot be deleted."""

_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")

NAME_LABEL: Final = "kubernetes.io/metadata.name"


def _create_namespace(namespace: Manifest, core: Core) -> None:
    del core
    stated = (namespace.get("spec") or {}).get("finalizers") or []
    namespace["spec"] = {"finalizers": [*(one for one in stated if one != "kubernetes"), "kubernetes"]}
    namespace["status"] = {"phase": "Active"}


def _default_namespace(namespace: Manifest, core: Core) -> None:
    del core
    metadata = namespace["metadata"]
    labels = metadata.get("labels")
    if not isinstance(labels, dict):
        labels = metadata["labels"] = {}
    labels[NAME_LABEL] = metadata.get("name", "")


def _default_node(node: Manifest, core: Core) -> None:
    """Complete capacity and allocatable from each other.

    Tests and simulators create nodes in one request.
    """
    del core
    spec = spec_of(node)
    if spec.get("podCIDR") and (spec.get("podCIDRs") or [""])[0] != spec["podCIDR"]:
        spec["podCIDRs"] = [spec["podCIDR"]]
    status = node.get("status")
    if isinstance(status, dict) and isinstance(status.get("capacity"), dict):
        status.setdefault("allocatable", dict(status["capacity"]))


def _keep_finalizers(new: Manifest, old: Manifest) -> None:
    """Keep the namespace's finalizers, which only its subresource `finalize` changes."""
    if "spec" in old:
        new["spec"] = old["spec"]


NAMESPACES = Strategy(create=_create_namespace, default=_default_namespace, keep=_keep_finalizers)


def _taint_errors(taints: list[Manifest]) -> list[FieldError]:
    found: list[FieldError] = []
    known: set[tuple[str, str]] = set()
    for at, taint in enumerate(taints):
        path, key, effect = f"metadata.taints[{at}]", taint.get("key") or "", taint.get("effect") or ""
        if rule := qualified_rule(key):
            found.append(invalid(f"{path}.key", key, rule))
        if rule := value_rule(taint.get("value") or ""):
            found.append(invalid(f"{path}.value", taint.get("value"), rule))
        if not effect:
            found.append(required(f"{path}.effect"))
        elif effect not in _EFFECTS:
            found.append(unsupported(f"{path}.effect", effect, _EFFECTS))
        if (key, effect) in known:
            rule = "taints must be unique by key and effect pair"
            found.append(FieldError(path, "FieldValueDuplicate", f"Duplicate value: {shown(taint)}: {rule}"))
        known.add((key, effect))
    return found


def _validate_node(node: Manifest) -> list[FieldError]:
    spec = node["spec"]
    found = _taint_errors(listed(spec.get("taints")))
    return found + [
        invalid(f"spec.podCIDRs[{at}]", text, NO_BLOCK)
        for at, text in enumerate(spec.get("podCIDRs") or ())
        if not is_block(text)
    ]


def _validate_node_update(new: Manifest, old: Manifest) -> list[FieldError]:
    """Return errors of a node update that changes pod networks or providerID once they are set."""
    after, before = new["spec"], old.get("spec") or {}
    return [
        forbidden(f"spec.{name}", f'node updates may not change {shown_as} except from "" to valid')
        for name, shown_as in (("podCIDRs", "podCIDR"), ("providerID", "providerID"))
        if before.get(name) and before[name] != after.get(name)
    ]


NODES = Strategy(default=_default_node, validate=_validate_node, validate_update=_validate_node_update)


def _validate(one: Manifest) -> list[FieldError]:
    handler, scheduling = one.get("handler"), one.get("scheduling") or {}
    found: list[FieldError] = []
    if not handler:
        found.append(required("handler"))
    elif rule := label_rule(handler):
        found.append(invalid("handler", handler, rule))
    found += resource_errors({"limits": (one.get("overhead") or {}).get("podFixed") or {}}, "overhead")
    found += label_errors(scheduling.get("nodeSelector"), "scheduling.nodeSelector")
    return found + toleration_errors(scheduling.get("tolerations") or (), "scheduling.tolerations")


RUNTIME_CLASSES: Final = Strategy(validate=_validate, validate_update=immutable("handler"))
