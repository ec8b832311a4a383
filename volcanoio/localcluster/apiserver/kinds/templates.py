"""What kinds with a pod template share: its defaults, its rules, and the selector that goes with it."""

from __future__ import annotations

from typing import Any

from volcanoio.engine.admission.fielderrors import FieldError, forbidden, invalid, required, unsupported
from volcanoio.engine.admission.podtemplate import pod_template_errors
from volcanoio.localcluster.apiserver.kinds.labelselectors import label_selector_errors
from volcanoio.localcluster.apiserver.kinds.podspec import default_pod_spec
from volcanoio.localcluster.apiserver.kinds.rules import at, child
from volcanoio.localcluster.apiserver.selectors import matches_label_selector
from volcanoio.model.base import Manifest

MISMATCH = "`selector` does not match template `labels`"


def default_template(spec: Manifest) -> None:
    """Fill the template of a spec, made where it is absent."""
    template = child(spec, "template")
    child(template, "metadata")
    default_pod_spec(child(template, "spec"))


def labels_of(template: Any) -> dict[str, str]:
    """The labels its pods will have."""
    labels = at(template, "metadata.labels") if isinstance(template, dict) else None
    return labels if isinstance(labels, dict) else {}


def is_selector(selector: Any) -> bool:
    """Whether a selector can be used at all: all its requirements are of a form that exists."""
    return not label_selector_errors(selector, "")


def matching_errors(selector: Any, template: Any, path: str) -> list[FieldError]:
    """The selector selects the template's pods; nothing is said of one that cannot be used."""
    labels = labels_of(template)
    if not isinstance(selector, dict):
        return [invalid(f"{path}.metadata.labels", labels or None, MISMATCH)]
    if not is_selector(selector) or matches_label_selector(selector, labels):
        return []
    return [invalid(f"{path}.metadata.labels", labels or None, MISMATCH)]


def empty_errors(selector: Any, kind: str) -> list[FieldError]:
    """The selector selects something in particular."""
    if not isinstance(selector, dict) or selector.get("matchLabels") or selector.get("matchExpressions"):
        return []
    return [invalid("spec.selector", selector, f"empty selector is invalid for {kind}")]


def lasting_errors(template: Any, path: str, kind: str) -> list[FieldError]:
    """Pods that are kept running are always restarted, and have no deadline."""
    spec = template.get("spec") if isinstance(template, dict) else None
    spec = spec if isinstance(spec, dict) else {}
    found: list[FieldError] = []
    if spec.get("restartPolicy") not in {None, "Always"}:
        found.append(unsupported(f"{path}.spec.restartPolicy", spec["restartPolicy"], ("Always",)))
    if spec.get("activeDeadlineSeconds") is not None:
        where = f"{path}.spec.activeDeadlineSeconds"
        found.append(forbidden(where, f"activeDeadlineSeconds in {kind} is not Supported"))
    return found


def replicated_errors(spec: Manifest, kind: str, shown: str = "ReplicaSet") -> list[FieldError]:
    """The selector and template of a kind that keeps replicas; `kind` is named for an empty selector."""
    selector, template = spec.get("selector"), spec.get("template")
    if not isinstance(selector, dict):
        found = [required("spec.selector")]
    else:
        found = label_selector_errors(selector, "spec.selector") + empty_errors(selector, kind)
    if isinstance(selector, dict) and not is_selector(selector):
        if shown == "ReplicaSet":
            return [*found, invalid("spec.selector", selector, "invalid label selector")]
        bare = invalid("spec.selector", selector, "")
        found.append(bare._replace(message=bare.message.removesuffix(": ")))
        return found + lasting_errors(template, "spec.template", shown)
    found += matching_errors(selector, template, "spec.template") if selector != {} else []
    found += pod_template_errors(template, "spec.template")
    return found + lasting_errors(template, "spec.template", shown)
