"""Job plugins: what `spec.plugins` names. Registered under the entry point group `volcanoio.job_plugins`.

A plugin says which objects the job needs beside its pods and how each pod is changed. It is pure: the controller
creates, updates and deletes the objects. What plugins ask of a job's pods is in `volcanoio.framework.jobpods`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import msgspec

from volcanoio.model.base import Manifest
from volcanoio.model.batch import Job, TaskSpec

HIGHEST_PORT = 65535


class Support(msgspec.Struct, frozen=True, kw_only=True):
    """An object a plugin wants to exist while the job is live.

    `resource` is `Kind.resource`: a ConfigMap, Secret, Service or NetworkPolicy. `fill` as in `effects.Create`. With
    `update` the controller keeps its content equal to `manifest` (data or spec; keys that `fill` made stay); without,
    it is only created where missing. `fixed` are entries of its data that never change in the life of the job, such as
    keys that were given: they are left out of what tells two contents apart, which is written on the object.
    """

    resource: str
    manifest: Manifest
    fill: str = ""
    update: bool = False
    fixed: frozenset[str] = frozenset()


class PluginArgumentError(ValueError):
    """An argument of a job plugin that does not fit; the message names plugin, argument and rule."""


class JobPlugin:
    """One job plugin, made for one job with its argument list (Go flag syntax, see `arguments.flags`).

    Derive from it and override what the plugin does; `name` is what `spec.plugins` names. An argument that does not
    fit raises ArgumentError or PluginArgumentError in the constructor, and refuses the job when it is submitted.
    """

    name: str
    needs: ClassVar[Sequence[str]] = ()
    """Plugins that a job with this one gets too, without arguments, unless it names them itself."""
    after: ClassVar[Sequence[str]] = ()
    """Plugins that change a pod before this one, where a job has them. Else the order is that of the names."""

    def __init__(self, arguments: Sequence[str]) -> None: ...

    def problems(self, job: Job) -> Sequence[str]:  # noqa: ARG002 - for overriding
        """Why the job cannot work with this plugin: rule and next step, a sentence each.

        A job is refused for these when it is submitted or scaled; one that is stored nevertheless waits, and says why.
        """
        return ()

    def hints(self, job: Job) -> Sequence[str]:  # noqa: ARG002 - for overriding
        """What the plugin will not do for the job, as a task that it is about has another name: rule and next step.

        Whoever submits the job is warned of these; it runs all the same.
        """
        return ()

    def supports(self, job: Job) -> Sequence[Support]:  # noqa: ARG002 - for overriding
        """The objects the job needs, without owner references: the controller adds them."""
        return ()

    def on_pod_create(self, pod: Manifest, job: Job, task: TaskSpec, index: int) -> None:
        """Change a pod that is about to be created, in place. `pod` is the plugin's to change.

        It is called for every pod of the job, with the same instance for those that are made together and maybe for
        later ones, as long as the job's spec stays: what is worked out from that may be kept.
        """


def port(chosen: Mapping[str, str | int | bool], name: str, owner: str) -> int:
    """A flag that is a TCP port; raises PluginArgumentError."""
    number = int(chosen[name])
    if not 0 < number <= HIGHEST_PORT:
        msg = f"{owner}: --{name} must be in 1..{HIGHEST_PORT}, not {number}"
        raise PluginArgumentError(msg)
    return number
