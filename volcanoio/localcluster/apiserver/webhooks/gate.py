"""Where writes meet webhooks: mutating ones in turn, validating ones at once.

Kubernetes: apiserver `pkg/admission/plugin/webhook/{mutating,validating}/dispatcher.go`. Costs one `if` of the writer
while no configuration is stored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec
import structlog

from volcanoio.localcluster.apiserver import errors
from volcanoio.localcluster.apiserver.caller import current_user
from volcanoio.localcluster.apiserver.errors import ApiError
from volcanoio.localcluster.apiserver.objects import Event, Ref, encode
from volcanoio.localcluster.apiserver.patches import PatchError, json_patch
from volcanoio.localcluster.apiserver.webhooks import review
from volcanoio.localcluster.apiserver.webhooks.attributes import Attributes
from volcanoio.localcluster.apiserver.webhooks.client import Caller, CallFailed
from volcanoio.localcluster.apiserver.webhooks.conditions import conditions_hold
from volcanoio.localcluster.apiserver.webhooks.configuration import MUTATING, VALIDATING, Hook, hooks_of
from volcanoio.localcluster.apiserver.webhooks.endpoints import NoEndpoint, resolve
from volcanoio.localcluster.apiserver.webhooks.matching import EXEMPT, matched
from volcanoio.localcluster.apiserver.webhooks.options import request_options
from volcanoio.localcluster.apiserver.webhooks.review import Answer, InvalidAnswer
from volcanoio.model.base import Manifest

if TYPE_CHECKING:
    from volcanoio.localcluster.apiserver.core import Core

_log = structlog.get_logger(__name__)
_HARMLESS = frozenset({"None", "NoneOnDryRun"})
_UNCHANGED = frozenset({"", "JSONPatch"})


class Failed(Exception):  # noqa: N818 - named for what happened
    """A webhook could not be asked, or gave no valid answer."""


class Reviewed(msgspec.Struct, frozen=True):
    """What came of a review: the object, whether it was changed, and what the client is told."""

    object: Manifest | None
    changed: bool = False
    warnings: tuple[str, ...] = ()


class Webhooks:
    """The configured webhooks. `configured` says whether there are any."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._caller = Caller()
        self._mutating: tuple[Hook, ...] = ()
        self._validating: tuple[Hook, ...] = ()
        self.configured = False
        self._load()
        for resource in (MUTATING, VALIDATING):
            core.store.on(resource, self._changed)

    def _changed(self, ref: Ref, event: Event) -> None:
        del ref, event
        self._load()

    def _load(self) -> None:
        self._mutating = hooks_of(self._core.store, MUTATING)
        self._validating = hooks_of(self._core.store, VALIDATING)
        self.configured = bool(self._mutating or self._validating)

    async def aclose(self) -> None:
        """Close the connections to webhooks."""
        await self._caller.aclose()

    async def mutate(self, write: Attributes, again: Callable[[Manifest], None] | None = None) -> Reviewed:
        """Ask the mutating webhooks in turn; raises ApiError.

        `again` is called after a change and brings the object in order in place (the server's own admission and
        defaults). Webhooks that asked for it are then asked once more where something changed after them.
        """
        if write.resource.name in EXEMPT or not self._mutating:
            return Reviewed(write.object)
        told: list[str] = []
        round_ = _Round()
        try:
            write = await self._mutating_round(write, round_, told, first=True)
            if round_.changed and write.object is not None:
                before = encode(write.object)
                if again is not None:
                    again(write.object)
                if encode(write.object) != before:
                    round_.require()
                if round_.required:
                    write = await self._mutating_round(write, round_, told, first=False)
                    if again is not None and write.object is not None:
                        again(write.object)
        except ApiError as error:
            error.warnings += tuple(told)
            raise
        return Reviewed(write.object, round_.changed, tuple(dict.fromkeys(told)))

    async def review(self, write: Attributes) -> Reviewed:
        """Ask both sorts about a write that has no rules of its own in between (subresources); raises ApiError."""
        write = replace(write, options=write.options or request_options(write.operation))
        reviewed = await self.mutate(write)
        told = await self.validate(replace(write, object=reviewed.object))
        return Reviewed(reviewed.object, reviewed.changed, reviewed.warnings + told)

    async def _mutating_round(self, write: Attributes, round_: _Round, told: list[str], *, first: bool) -> Attributes:
        for hook in self._mutating:
            shown = self._invocation(hook, write)
            if shown is None or not (first or hook.uid in round_.required):
                continue
            changed = False
            try:
                answer = await self._ask(hook, shown, write, told, mutating=True)
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
        """Ask the validating webhooks at once; returns warnings, raises the ApiError of the first that says no."""
        if write.resource.name in EXEMPT or not self._validating:
            return ()
        asked = [(hook, shown) for hook in self._validating if (shown := self._invocation(hook, write))]
        if not asked:
            return ()
        told: list[list[str]] = [[] for _ in asked]
        results = await asyncio.gather(
            *(self._validated(hook, shown, write, told[at]) for at, (hook, shown) in enumerate(asked)),
            return_exceptions=True,
        )
        warnings = tuple(dict.fromkeys(text for texts in told for text in texts))
        for result in results:
            if isinstance(result, ApiError):
                result.warnings += warnings
            if result is not None:
                raise result
        return warnings

    async def _validated(self, hook: Hook, shown: Attributes, write: Attributes, told: list[str]) -> None:
        try:
            await self._ask(hook, shown, write, told, mutating=False)
        except Failed as error:
            self._failed(hook, error)

    def _invocation(self, hook: Hook, write: Attributes) -> Attributes | None:
        shown = matched(hook, write, self._core)
        if shown is not None and hook.match_conditions and not conditions_hold(hook, shown, write):
            return None
        return shown

    def _failed(self, hook: Hook, error: Failed) -> None:
        """A failure counts as consent, or as a refusal: raises ApiError 500."""
        text = f'failed calling webhook "{hook.name}": {error}'
        if not hook.ignores_failures:
            raise errors.internal(text)
        _log.warning("webhook_failed_open", webhook=hook.name, configuration=hook.configuration, error=str(error))

    async def _ask(
        self, hook: Hook, shown: Attributes, asked: Attributes, told: list[str], *, mutating: bool
    ) -> Answer | None:
        """The answer of one that agrees; raises Failed, and ApiError for a refusal."""
        if shown.dry_run and hook.side_effects not in _HARMLESS:
            raise errors.bad_request(f'admission webhook "{hook.name}" does not support dry run')
        uid = self._core.new_uid()
        try:
            version = review.version_for(hook.admission_review_versions)
        except InvalidAnswer as error:
            msg = f"could not create admission objects: {error}"
            raise Failed(msg) from None
        body = review.question(uid, version, shown, asked, current_user())
        try:
            endpoint = resolve(hook.client_config, self._core.store)
            raw = await self._caller.post(endpoint, hook.client_config.ca_bundle, body, hook.timeout_seconds)
        except (NoEndpoint, CallFailed) as error:
            msg = f"failed to call webhook: {error}"
            raise Failed(msg) from None
        try:
            answer = review.verified(raw, uid, version, mutating=mutating)
        except InvalidAnswer as error:
            msg = f"received invalid webhook response: {error}"
            raise Failed(msg) from None
        told += answer.warnings or ()
        if not answer.allowed:
            raise review.refusal(hook.name, answer.status)
        return answer


class _Round:
    """Who has to be asked again: those that asked for it and were asked before something changed."""

    def __init__(self) -> None:
        self.changed = False
        self.invoked: set[tuple[str, str]] = set()
        self.required: set[tuple[str, str]] = set()

    def require(self) -> None:
        """Something changed: all who want to know of it, and were asked before, shall be asked again."""
        self.required |= self.invoked
        self.invoked = set()


def _patched(hook: Hook, shown: Attributes, answer: Answer) -> Manifest | None:
    """The object after the webhook's patch, None for an empty one; raises Failed and ApiError."""
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
