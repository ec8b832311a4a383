"""Dispatch of writes to webhooks: mutating ones in turn, validating ones concurrently.

Kubernetes: apiserver `pkg/admission/plugin/webhook/{mutating,validating}/dispatcher.go`; rules and selectors as in
`predicates` and `generic/webhook.go`. Webhook configurations are never sent to webhooks, because one that refuses
everything could then not be deleted. Without a configuration the cost is one `if` in the writer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

import msgspec
import structlog

from volcanoio.localcluster.apiserver.admission.webhooks import review
from volcanoio.localcluster.apiserver.admission.webhooks.attributes import Attributes, request_options
from volcanoio.localcluster.apiserver.admission.webhooks.client import CallFailed, NoEndpoint, WebhookClient, resolve
from volcanoio.localcluster.apiserver.admission.webhooks.conditions import conditions_hold
from volcanoio.localcluster.apiserver.admission.webhooks.configuration import (
    MUTATING,
    VALIDATING,
    Hook,
    Rule,
    Selector,
    hooks_of,
)
from volcanoio.localcluster.apiserver.admission.webhooks.review import Answer, InvalidAnswer
from volcanoio.localcluster.apiserver.apimachinery import errors
from volcanoio.localcluster.apiserver.apimachinery.errors import ApiError
from volcanoio.localcluster.apiserver.apimachinery.objects import Event, Ref, encode
from volcanoio.localcluster.apiserver.apimachinery.request import current_user
from volcanoio.localcluster.apiserver.apimachinery.resources import Resource
from volcanoio.localcluster.apiserver.apimachinery.selectors import matches_label_selector
from volcanoio.localcluster.apiserver.apimachinery.served_resources import Registry
from volcanoio.localcluster.apiserver.patches import PatchError, json_patch
from volcanoio.localcluster.apiserver.storage.store import Store
from volcanoio.model.base import Manifest

EXEMPT: Final = frozenset(
    f"{sort}.admissionregistration.k8s.io"
    for sort in (
        *("mutatingwebhookconfigurations", "validatingwebhookconfigurations"),
        *("validatingadmissionpolicies", "validatingadmissionpolicybindings"),
        *("mutatingadmissionpolicies", "mutatingadmissionpolicybindings"),
    )
)
"""Resources that are never sent to webhooks."""

_EQUIVALENT: Final = {"events": "events.events.k8s.io", "events.events.k8s.io": "events"}
"""Resources of two groups with the same objects."""


def matched(hook: Hook, write: Attributes, store: Store, registry: Registry) -> Attributes | None:
    """Return the write in the version that the webhook matches.

    The result is None when it does not match. Raises ApiError.

    An error of a selector only matters when the rules match.
    """
    problem: errors.ApiError | None = None
    try:
        if not _selects_namespace(hook, write, store, registry):
            return None
    except errors.ApiError as error:
        problem = error
    if not _selects_object(hook.object_selector, write):
        return None
    resource = _matching_resource(hook, write, registry)
    if resource is None:
        return None
    if problem is not None:
        raise problem
    return write if resource is write.resource else write.of(resource)


def _matching_resource(hook: Hook, write: Attributes, registry: Registry) -> Resource | None:
    if any(matches_rule(rule, write, write.resource) for rule in hook.rules):
        return write.resource
    if hook.match_policy != "Equivalent":
        return None
    others = [one for one in _equivalents(write.resource, registry) if one is not write.resource]
    return next((one for rule in hook.rules for one in others if matches_rule(rule, write, one)), None)


def _equivalents(resource: Resource, registry: Registry) -> Iterable[Resource]:
    """Return the other served versions of a resource."""
    names = {resource.name, _EQUIVALENT.get(resource.name, resource.name)}
    return [one for one in registry.resources() if one.name in names and one.api_version != resource.api_version]


def matches_rule(rule: Rule, write: Attributes, resource: Resource) -> bool:
    """Return whether a rule names the operation and the resource."""
    return (
        _in_scope(rule.scope, write)
        and _named(rule.operations, write.operation)
        and _named(rule.api_groups, resource.group)
        and _named(rule.api_versions, resource.version)
        and any(_names_resource(one, resource.plural, write.subresource) for one in rule.resources)
    )


def _named(items: tuple[str, ...], value: str) -> bool:
    return value in items or "*" in items


def _names_resource(pattern: str, plural: str, subresource: str) -> bool:
    resource, _, sub = pattern.partition("/")
    return resource in {"*", plural} and sub in {"*", subresource}


def _in_scope(scope: str, write: Attributes) -> bool:
    """Return whether the scope matches.

    Namespaces are cluster-scoped although their attributes have a namespace.
    """
    if scope == "*":
        return True
    cluster = write.resource.name == "namespaces" or not write.namespace
    return cluster == (scope == "Cluster")


def _selects_object(selector: Selector, write: Attributes) -> bool:
    """Return whether the object selector matches the old or the new object."""
    if not _restricts(selector):
        return True
    return any(
        one is not None and matches_label_selector(selector, (one.get("metadata") or {}).get("labels") or {})
        for one in (write.object, write.old)
    )


def _selects_namespace(hook: Hook, write: Attributes, store: Store, registry: Registry) -> bool:
    """Return whether the namespace selector matches.

    Cluster-scoped objects always match; a written Namespace is matched by its new labels.
    """
    if not _restricts(hook.namespace_selector) or not write.namespace:
        return True
    if write.resource.name == "namespaces" and not write.subresource and write.object is not None:
        labels = (write.object.get("metadata") or {}).get("labels") or {}
    else:
        stored = store.get(Ref("namespaces", "", write.namespace))
        if stored is None:
            raise errors.not_found(registry.builtin("namespaces"), write.namespace)
        labels = stored.labels
    return matches_label_selector(hook.namespace_selector, labels)


def _restricts(selector: Selector) -> bool:
    return bool(selector.get("matchLabels") or selector.get("matchExpressions"))


_log = structlog.get_logger(__name__)
_HARMLESS = frozenset({"None", "NoneOnDryRun"})
_UNCHANGED = frozenset({"", "JSONPatch"})


class Failed(Exception):  # noqa: N818 - named for what happened
    """A call to a webhook failed, or its answer was invalid."""


class Reviewed(msgspec.Struct, frozen=True):
    """Result of a review: the object, whether it changed, and the warnings."""

    object: Manifest | None
    changed: bool = False
    warnings: tuple[str, ...] = ()


class WebhookDispatcher:
    """Dispatcher that calls the configured webhooks; `configured` is whether there are any."""

    def __init__(self, store: Store, registry: Registry, new_uid: Callable[[], str]) -> None:
        self._store = store
        self._registry = registry
        self._new_uid = new_uid
        self._caller = WebhookClient()
        self._mutating: tuple[Hook, ...] = ()
        self._validating: tuple[Hook, ...] = ()
        self.configured = False
        self._load()
        for resource in (MUTATING, VALIDATING):
            store.on(resource, self._changed)

    def _changed(self, ref: Ref, event: Event) -> None:
        del ref, event
        self._load()

    def _load(self) -> None:
        self._mutating = hooks_of(self._store, MUTATING)
        self._validating = hooks_of(self._store, VALIDATING)
        self.configured = bool(self._mutating or self._validating)

    async def aclose(self) -> None:
        """Close the connections to webhooks."""
        await self._caller.aclose()

    async def mutate(self, write: Attributes, again: Callable[[Manifest], None] | None = None) -> Reviewed:
        """Call the mutating webhooks in turn; raises ApiError.

        `again` is called after each change and applies in-process admission and defaults in place. Webhooks with a
        reinvocation policy are then called once more if something changed after them.
        """
        if write.resource.name in EXEMPT or not self._mutating:
            return Reviewed(write.object)
        warnings: list[str] = []
        round_ = _Round()
        try:
            write = await self._mutating_round(write, round_, warnings, first=True)
            if round_.changed and write.object is not None:
                before = encode(write.object)
                if again is not None:
                    again(write.object)
                if encode(write.object) != before:
                    round_.require()
                if round_.required:
                    write = await self._mutating_round(write, round_, warnings, first=False)
                    if again is not None and write.object is not None:
                        again(write.object)
        except ApiError as error:
            error.warnings += tuple(warnings)
            raise
        return Reviewed(write.object, round_.changed, tuple(dict.fromkeys(warnings)))

    async def review(self, write: Attributes) -> Reviewed:
        """Call both types of webhooks for a subresource without validation in between.

        Raises ApiError.
        """
        write = replace(write, options=write.options or request_options(write.operation))
        reviewed = await self.mutate(write)
        warnings = await self.validate(replace(write, object=reviewed.object))
        return Reviewed(reviewed.object, reviewed.changed, reviewed.warnings + warnings)

    async def _mutating_round(
        self, write: Attributes, round_: _Round, warnings: list[str], *, first: bool
    ) -> Attributes:
        for hook in self._mutating:
            shown = self._invocation(hook, write)
            if shown is None or not (first or hook.uid in round_.required):
                continue
            changed = False
            try:
                answer = await self._ask(hook, shown, write, warnings, mutating=True)
                if answer is not None and answer.patch:
                    after = _patched(hook, shown, answer)
                    if after is not None:
                        after["apiVersion"] = (write.object or {}).get("apiVersion")
                        changed = after != write.object
                        write = replace(write, object=after)
            except Failed as error:
                self._failed(hook, error)
            if changed:
                round_.changed = True
                round_.require()
            if hook.reinvocation_policy == "IfNeeded":
                round_.invoked.add(hook.uid)
        return write

    async def validate(self, write: Attributes) -> tuple[str, ...]:
        """Call the validating webhooks concurrently.

        Returns warnings, raises the ApiError of the first refusal.
        """
        if write.resource.name in EXEMPT or not self._validating:
            return ()
        asked = [(hook, shown) for hook in self._validating if (shown := self._invocation(hook, write))]
        if not asked:
            return ()
        collected: list[list[str]] = [[] for _ in asked]
        results = await asyncio.gather(
            *(self._validated(hook, shown, write, collected[at]) for at, (hook, shown) in enumerate(asked)),
            return_exceptions=True,
        )
        warnings = tuple(dict.fromkeys(text for texts in collected for text in texts))
        for result in results:
            if isinstance(result, ApiError):
                result.warnings += warnings
            if result is not None:
                raise result
        return warnings

    async def _validated(self, hook: Hook, shown: Attributes, write: Attributes, warnings: list[str]) -> None:
        try:
            await self._ask(hook, shown, write, warnings, mutating=False)
        except Failed as error:
            self._failed(hook, error)

    def _invocation(self, hook: Hook, write: Attributes) -> Attributes | None:
        shown = matched(hook, write, self._store, self._registry)
        if shown is not None and hook.match_conditions and not conditions_hold(hook, shown, write):
            return None
        return shown

    def _failed(self, hook: Hook, error: Failed) -> None:
        """Ignore a failed call, or raise ApiError 500, by the failure policy."""
        text = f'failed calling webhook "{hook.name}": {error}'
        if not hook.ignores_failures:
            raise errors.internal(text)
        _log.warning("webhook_failed_open", webhook=hook.name, configuration=hook.configuration, error=str(error))

    async def _ask(
        self, hook: Hook, shown: Attributes, asked: Attributes, warnings: list[str], *, mutating: bool
    ) -> Answer | None:
        """Call a webhook and return its answer; raises Failed, and ApiError for a refusal."""
        if shown.dry_run and hook.side_effects not in _HARMLESS:
            raise errors.bad_request(f'admission webhook "{hook.name}" does not support dry run')
        uid = self._new_uid()
        try:
            version = review.version_for(hook.admission_review_versions)
        except InvalidAnswer as error:
            msg = f"could not create admission objects: {error}"
            raise Failed(msg) from None
        body = review.question(uid, version, shown, asked, current_user())
        try:
            endpoint = resolve(hook.client_config, self._store)
            raw = await self._caller.post(endpoint, hook.client_config.ca_bundle, body, hook.timeout_seconds)
        except (NoEndpoint, CallFailed) as error:
            msg = f"failed to call webhook: {error}"
            raise Failed(msg) from None
        try:
            answer = review.verified(raw, uid, version, mutating=mutating)
        except InvalidAnswer as error:
            msg = f"received invalid webhook response: {error}"
            raise Failed(msg) from None
        warnings += answer.warnings or ()
        if not answer.allowed:
            raise review.refusal(hook.name, answer.status)
        return answer


class _Round:
    """The webhooks to call again: those that requested it and were called before a later change."""

    def __init__(self) -> None:
        self.changed = False
        self.invoked: set[tuple[str, str]] = set()
        self.required: set[tuple[str, str]] = set()

    def require(self) -> None:
        """Record a change.

        Webhooks with a reinvocation policy that were called before are called again.
        """
        self.required |= self.invoked
        self.invoked = set()


def _patched(hook: Hook, shown: Attributes, answer: Answer) -> Manifest | None:
    """Return the object after the webhook's patch, None for an empty one.

    Raises Failed and ApiError.
    """
    try:
        operations = msgspec.json.decode(answer.patch, type=list[Manifest])
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        msg = f"received undecodable patch in webhook response: {error}"
        raise Failed(msg) from None
    if not operations:
        return None
    if shown.object is None:
        text = f'admission webhook "{hook.name}" attempted to modify the object'
        raise errors.internal(f"{text}, which is not supported for this operation")
    if (answer.patch_type or "") not in _UNCHANGED:
        msg = f'unsupported patch type "{answer.patch_type}"'
        raise Failed(msg)
    try:
        patched = json_patch.apply(msgspec.json.decode(encode(shown.object)), operations)
    except PatchError as error:
        raise errors.internal(str(error)) from None
    if not isinstance(patched, dict) or not isinstance(patched.get("metadata"), dict):
        raise errors.internal(f'admission webhook "{hook.name}": its patch leaves no object with metadata')
    return patched
