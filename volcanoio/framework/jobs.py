"""Job plugins: what `spec.plugins` names. Registered under the entry point group `volcanoio.job_plugins`.

A plugin says which objects the job needs beside its pods and how each pod is changed. It is pure: the controller
creates, updates and deletes the objects.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from volcanoio.model.base import Manifest
from volcanoio.model.batch import Job, TaskSpec


class Support(msgspec.Struct, frozen=True, kw_only=True):
    """An object a plugin wants to exist while the job is live.

    `resource` is `Kind.resource`. `fill` as in `effects.Create`. With `update` the controller keeps its content equal
    to `manifest` (data or spec); without, it is only created where missing.
    """

    resource: str
    manifest: Manifest
    fill: str = ""
    update: bool = False


class PluginArgumentError(ValueError):
    """An argument of a job plugin that does not parse; the message names plugin, argument and rule."""


class JobPlugin(Protocol):
    """One job plugin instance, made for one job with its argument list (Go flag syntax, see `arguments.flags`)."""

    name: str

    def __init__(self, arguments: Sequence[str]) -> None: ...

    def supports(self, job: Job) -> Sequence[Support]:
        """The objects the job needs, without owner references: the controller adds them."""
        ...

    def on_pod_create(self, pod: Manifest, job: Job, task: TaskSpec, index: int) -> None:
        """Change a pod that is about to be created, in place. `pod` is the plugin's to change."""
        ...
