"""The webhooks by path, as in Volcano, and the configurations with which an API server calls them.

Admission that cannot be reached must not stop the cluster: webhooks of pods match only pods that a rule may concern,
and never those of kube-system and of the admission's own namespace; defaults of pods are left out then. What guards the
rights to queues fails closed: webhooks of volcanoio's own kinds, and the validation of pods of its schedulers, except
of those that its controllers create.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from itertools import accumulate
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec

from volcanoio.engine.admission.pods import REVIEWED_ANNOTATIONS
from volcanoio.engine.admission.request import AdmissionSettings, Review
from volcanoio.engine.admission.resource_groups import membership_condition
from volcanoio.framework.arguments import suggestion
from volcanoio.model import kinds, names
from volcanoio.model.base import ApiObject, Manifest
from volcanoio.model.kinds import Kind

TIMEOUT_SECONDS, IGNORED_TIMEOUT_SECONDS = 10, 2
"""Seconds that the API server waits for a review, as in Volcano; less where a failure is ignored, as the write must
still end within `kube.sender.WRITE_BOUND`."""
MAX_DENIAL = 16 << 10
"""Characters of the problems in a denial."""
MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGER = "volcanoio-webhook-manager"
"""Value of the label `MANAGED_BY` on objects that the webhook manager created."""
MANAGED_WEBHOOKS = "volcanoio.dev/managed-webhooks"
"""Annotation of configurations whose webhooks the webhook manager wrote and keeps up to date."""

_CREATE, _WRITE = ("CREATE",), ("CREATE", "UPDATE")
_CHANGED_SPEC = "oldObject == null || object.spec != oldObject.spec"
"""CEL: an update that only removes a finalizer, or writes the status of a PodGroup, is not reviewed."""
_CHANGED_JOB = (
    f"{_CHANGED_SPEC} || object.metadata.?annotations[?'{names.CREATOR}'] != "
    f"oldObject.metadata.?annotations[?'{names.CREATOR}']"
)
_NAMES_QUEUE = " || ".join(
    f"object.metadata.?{field}[?'{names.QUEUE_NAME_ANNOTATION}'] != "
    f"(oldObject == null ? optional.none() : oldObject.metadata.?{field}[?'{names.QUEUE_NAME_ANNOTATION}'])"
    for field in ("annotations", "labels")
)
_NAMES_QUEUE += " || (oldObject == null && object.?spec.?workloadRef.hasValue())"
"""CEL: a native PodGroup or Workload is reviewed for the queue that it names, or that its Workload names."""
_POD_ANNOTATIONS = sorted({names.GROUP_NAME, names.QUEUE_NAME_ANNOTATION, *REVIEWED_ANNOTATIONS})
_CHANGED_POD = (
    f"oldObject == null || object.metadata.?ownerReferences != oldObject.metadata.?ownerReferences || "
    f"{msgspec.json.encode(_POD_ANNOTATIONS).decode()}.exists(key, "
    "object.metadata.?annotations[?key] != oldObject.metadata.?annotations[?key])"
)
"""CEL: kubelets and network plugins annotate pods too."""


class WebhookConfiguration(ApiObject):
    """A MutatingWebhookConfiguration or ValidatingWebhookConfiguration."""

    webhooks: tuple[Manifest, ...] = ()
    """The webhooks, with every field."""


_GROUP = "admissionregistration.k8s.io"
MUTATING, VALIDATING = (
    Kind(_GROUP, "v1", f"{verb}WebhookConfiguration", plural, WebhookConfiguration, False, False)
    for verb, plural in (
        ("Mutating", "mutatingwebhookconfigurations"), ("Validating", "validatingwebhookconfigurations")
    )
)  # fmt: skip


class PathError(ValueError):
    """A path that is not served; the message contains the field, the rule and the next step."""


class WebhookPath(NamedTuple):
    """One webhook: its operations by kind, and the CEL expressions that a request must satisfy to be sent."""

    path: str
    operations: Mapping[Kind, tuple[str, ...]]
    conditions: Mapping[str, str] = {}

    @property
    def is_mutating(self) -> bool:
        """Whether the webhook sets defaults; the others validate."""
        return self.path.endswith("/mutate")

    @property
    def kind(self) -> Kind:
        """The kind of the webhook's configuration."""
        return MUTATING if self.is_mutating else VALIDATING

    @property
    def webhook_name(self) -> str:
        """The name of the webhook within its configuration."""
        return webhook_name(next(iter(self.operations)).resource, "mutate" if self.is_mutating else "validate")


_NOUNS = {
    kinds.JOB.resource: "job",
    kinds.CRON_JOB.resource: "cronjob",
    kinds.JOB_FLOW.resource: "jobflow",
    kinds.JOB_TEMPLATE.resource: "jobtemplate",
    kinds.POD.resource: "pod",
    kinds.POD_GROUP.resource: "podgroup",
    kinds.NATIVE_POD_GROUP.resource: "nativegroup",
    kinds.QUEUE.resource: "queue",
    kinds.HYPER_NODE.resource: "hypernodes",
}
"""Resource names in Volcano's webhook names: validatejob.volcano.sh and so on."""
_CHANGED = {"spec-changed": _CHANGED_SPEC}
PATHS: Mapping[str, WebhookPath] = {
    row.path: row
    for row in (
        WebhookPath("/jobs/mutate", {kinds.JOB: _CREATE}),
        WebhookPath("/jobs/validate", {kinds.JOB: _WRITE}, {"spec-changed": _CHANGED_JOB}),
        WebhookPath(
            "/podgroups/mutate",
            {kinds.POD_GROUP: _CREATE},
            {"default-queue": "object.?spec.?queue.orValue('') == 'default'"},
        ),
        WebhookPath("/podgroups/validate", {kinds.POD_GROUP: _WRITE}, _CHANGED),
        WebhookPath(
            "/nativegroups/validate",
            {kinds.NATIVE_POD_GROUP: _WRITE, kinds.WORKLOAD: _WRITE},
            {"names-queue": _NAMES_QUEUE},
        ),
        WebhookPath("/queues/mutate", {kinds.QUEUE: _CREATE}),
        WebhookPath(
            "/queues/validate",
            {kinds.QUEUE: (*_WRITE, "DELETE"), kinds.COMMAND: _WRITE},
            {"queue": "request.resource.resource != 'commands' || object.?target.?kind.orValue('') == 'Queue'"},
        ),
        WebhookPath("/pods/mutate", {kinds.POD: _CREATE}),
        WebhookPath("/pods/validate", {kinds.POD: _WRITE}, {"relevant-change": _CHANGED_POD}),
        WebhookPath("/hypernodes/validate", {kinds.HYPER_NODE: _WRITE}, _CHANGED),
        WebhookPath("/jobflows/validate", {kinds.JOB_FLOW: _WRITE, kinds.JOB_TEMPLATE: _WRITE}, _CHANGED),
        WebhookPath("/cronjobs/validate", {kinds.CRON_JOB: _WRITE}, _CHANGED),
    )
}
"""All webhooks. Beyond Volcano, JobTemplates, updates of PodGroups and pods, native PodGroups, Workloads, and Commands
to queues are reviewed, most of them for rights to queues only."""
DEFAULT_PATHS = tuple(PATHS)
"""The paths that are served by default: all of them. Volcano's default omits some."""


class Target(NamedTuple):
    """The webhooks to register, and where the API server finds them: a Service, or (if given) the base of a URL.

    The Service's name also begins the names of the webhook configurations. With `creates`, missing configurations are
    created; else they are waited for, as in Volcano.
    """

    namespace: str = names.SYSTEM_NAMESPACE
    service: str = "volcano-admission-service"
    url: str = ""
    creates: bool = True
    rows: tuple[WebhookPath, ...] = tuple(PATHS.values())

    def configuration_name(self, path: str) -> str:
        """Return the name of a path's webhook configuration."""
        return self.service + path.replace("/", "-")

    def server_names(self) -> tuple[str, ...]:
        """Return the names that the serving certificate is for, last the one by which API servers connect."""
        service = (self.service, f"{self.service}.{self.namespace}", f"{self.service}.{self.namespace}.svc")
        host = urlsplit(self.url).hostname if self.url else None
        return (*service, host) if host else service


def parse_paths(text: str) -> tuple[WebhookPath, ...]:
    """Return the webhooks of a comma-separated list. Raises PathError."""
    asked = [path.strip() for path in text.split(",") if path.strip()]
    for path in asked:
        if path not in PATHS:
            hint = suggestion(path, list(PATHS))
            raise PathError(f"--enabled-admission: there is no path {path}{hint}; valid values: {', '.join(PATHS)}")
    if not asked:
        raise PathError("--enabled-admission: no path is given; leave the flag out to serve all of them")
    return tuple(PATHS[path] for path in dict.fromkeys(asked))


def webhook_name(resource: str, verb: str = "validate") -> str:
    """Return Volcano's name of the webhook of a resource."""
    return f"{verb}{_NOUNS[resource]}.volcano.sh"


def denial_text(review: Review) -> str:
    """Format the problems of a review: one on a line, several as a list that ends at `MAX_DENIAL` characters."""
    sizes = accumulate(len(message) for message in review.messages)
    shown = [message for message, size in zip(review.messages, sizes, strict=True) if size <= MAX_DENIAL]
    if left_out := review.left_out + len(review.messages) - len(shown):
        shown.append(f"{left_out} more; they are shown once these are fixed")
    return shown[0] if len(shown) == 1 else "".join(f"\n- {message}" for message in shown)


def configuration(row: WebhookPath, target: Target, settings: AdmissionSettings, ca_bundle: bytes) -> Manifest:
    """Return the webhook configuration of a path."""
    is_pods, is_ignored = kinds.POD in row.operations, may_fail(row, settings)
    webhook: Manifest = {
        "name": row.webhook_name,
        "admissionReviewVersions": ["v1"],
        "clientConfig": {**_address(row, target), "caBundle": encoded(ca_bundle)},
        "rules": [
            {
                "apiGroups": [kind.group],
                "apiVersions": [kind.version],
                "operations": list(operations),
                "resources": [kind.plural],
                "scope": "Namespaced" if kind.namespaced else "Cluster",
            }
            for kind, operations in row.operations.items()
        ],
        "failurePolicy": "Ignore" if is_ignored else "Fail",
        "matchPolicy": "Equivalent",
        "sideEffects": "None",
        "timeoutSeconds": IGNORED_TIMEOUT_SECONDS if is_ignored else TIMEOUT_SECONDS,
        "matchConditions": [
            {"name": name, "expression": expression} for name, expression in _conditions(row, settings).items()
        ],
    }
    if is_pods:
        excluded = list(dict.fromkeys((target.namespace or names.SYSTEM_NAMESPACE, "kube-system")))
        expression = {"key": names.NAMESPACE_NAME, "operator": "NotIn", "values": excluded}
        webhook["namespaceSelector"] = {"matchExpressions": [expression]}
    if row.is_mutating:
        webhook["reinvocationPolicy"] = "Never"
    return {
        "apiVersion": row.kind.api_version,
        "kind": row.kind.kind,
        "metadata": {
            "name": target.configuration_name(row.path),
            "labels": {MANAGED_BY: MANAGER},
            "annotations": {MANAGED_WEBHOOKS: "true"},
        },
        "webhooks": [webhook],
    }


def may_fail(row: WebhookPath, settings: AdmissionSettings) -> bool:
    """Return whether writes go on while the webhook fails: such of pods that no scheduler of ours has for itself."""
    if kinds.POD not in row.operations:
        return False
    return row.is_mutating or names.DEFAULT_SCHEDULER in _own_schedulers(settings)


def _own_schedulers(settings: AdmissionSettings) -> list[str]:
    named = dict.fromkeys((settings.scheduler_name, *settings.schedulers))
    return [name for name in named if settings.schedules(name)]


def encoded(ca_bundle: bytes) -> str:
    """Return a bundle as `caBundle` contains it."""
    return base64.b64encode(ca_bundle).decode()


def _address(row: WebhookPath, target: Target) -> Manifest:
    if target.url:
        return {"url": target.url.rstrip("/") + row.path}
    return {"service": {"name": target.service, "namespace": target.namespace, "path": row.path, "port": 443}}


def _conditions(row: WebhookPath, settings: AdmissionSettings) -> dict[str, str]:
    if row.path == "/pods/mutate":
        return {"concerned": _concerned_pods(settings)}
    if row.path == "/pods/validate":
        conditions = {**row.conditions, "scheduler": f"object.spec.schedulerName in {_list(_own_schedulers(settings))}"}
        if settings.trusted_users:
            conditions["author"] = f"!(request.userInfo.username in {_list(settings.trusted_users)})"
        return conditions
    return dict(row.conditions)


def _concerned_pods(settings: AdmissionSettings) -> str:
    """Return a CEL expression for pods of a resource group, and for those with the gate's annotation."""
    terms = [membership_condition(settings.resource_groups)]
    if settings.gated_schedulers:
        terms.append(f"object.metadata.?annotations[{_text(names.QUEUE_ALLOCATION_GATE)}].orValue('') == 'true'")
    return " || ".join(filter(None, terms)) or "false"


def _list(texts: Iterable[str]) -> str:
    return f"[{', '.join(map(_text, texts))}]"


def _text(text: str) -> str:
    return msgspec.json.encode(text).decode()
