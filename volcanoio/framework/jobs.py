"""Job plugins: the plugins named in `spec.plugins`. Registered under the entry point group `volcanoio.job_plugins`.

A plugin returns the objects that the job needs beside its pods, and changes each pod. It is pure: the controller
creates, updates and deletes the objects. `volcanoio.framework.jobpods` has functions for a job's pods.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

import msgspec

from volcanoio.framework.arguments import ArgumentError
from volcanoio.model.base import Manifest
from volcanoio.model.batch import Job, TaskSpec

HIGHEST_PORT = 65535
MOST_FLAGS = 64
"""Arguments among which the first invalid one is looked for; no plugin has as many."""


class OwnedObject(msgspec.Struct, frozen=True, kw_only=True):
    """An object that must exist while the job is live; the controller adds the owner reference.

    `resource` is `Kind.resource`: a ConfigMap, Secret, Service or NetworkPolicy. `fill` as in `effects.Create`. With
    `update` the controller keeps its content equal to `manifest` (data or spec; keys added by `fill` stay); without, it
    is only created where missing. `fixed` are data entries that never change in the life of the job, such as given
    keys: they are excluded from the content hash that is written on the object.
    """

    resource: str
    manifest: Manifest
    fill: str = ""
    update: bool = False
    fixed: frozenset[str] = frozenset()


class PluginArgumentError(ValueError):
    """An invalid argument of a job plugin; the message names plugin, argument and rule."""


class JobPlugin:
    """Base class of job plugins, constructed for one job with its arguments (Go flags, see `arguments.parse_flags`).

    Override what the plugin does; `name` is its name in `spec.plugins`. An invalid argument raises ArgumentError or
    PluginArgumentError in the constructor, and the job is rejected on submission; on a job that is already stored it is
    ignored with a warning.
    """

    name: str
    needs: ClassVar[Sequence[str]] = ()
    """Plugins that are added to a job with this one, without arguments, unless the job names them itself."""
    after: ClassVar[Sequence[str]] = ()
    """Plugins that change a pod before this one, if the job has them. Otherwise the order is alphabetical."""

    def __init__(self, arguments: Sequence[str]) -> None: ...

    def problems(self, job: Job) -> Sequence[str]:  # noqa: ARG002 - for overriding
        """Return why the job cannot work with this plugin: rule and next step, one sentence each.

        The job is rejected with these when it is submitted or scaled; a job that is already stored waits and shows
        them.
        """
        return ()

    def warnings(self, job: Job) -> Sequence[str]:  # noqa: ARG002 - for overriding
        """Return what the plugin cannot do for the job, such as when a task has an unexpected name: rule and next step.

        They are admission warnings; the job runs all the same.
        """
        return ()

    def owned_objects(self, job: Job) -> Sequence[OwnedObject]:  # noqa: ARG002 - for overriding
        """Return the objects that the job needs, without owner references."""
        return ()

    def on_pod_create(self, pod: Manifest, job: Job, task: TaskSpec, index: int) -> None:
        """Change a pod that is about to be created, in place.

        It is called for every pod of the job. One instance serves all pods that are created together, and may be reused
        while the job's spec is unchanged, so what is computed from the spec may be cached.
        """


def lenient_plugin(factory: Callable[[Sequence[str]], JobPlugin], arguments: Sequence[str]) -> tuple[JobPlugin, str]:
    """Construct the plugin of a stored Job; also return why some of its arguments are ignored, "" if none are.

    As in Volcano, where Go stops reading flags at the first invalid one: that one and those after it are ignored; of
    very many arguments, all after number `MOST_FLAGS`. Raises what the constructor raises without arguments.
    """
    why = ""
    numbers = range(min(len(arguments), MOST_FLAGS), 0, -1)
    for number in numbers if len(arguments) <= MOST_FLAGS else (len(arguments), *numbers):
        try:
            plugin = factory(tuple(arguments[:number]))
        except (ArgumentError, PluginArgumentError) as error:
            why = why or str(error)
        else:
            return plugin, f"arguments from number {number + 1} on: {why}" if why else ""
    return factory(()), f"arguments from number 1 on: {why}" if why else ""


def parse_port(chosen: Mapping[str, str | int | bool], name: str, owner: str) -> int:
    """Return a flag that is a TCP port; raises PluginArgumentError."""
    number = int(chosen[name])
    if not 0 < number <= HIGHEST_PORT:
        raise PluginArgumentError(f"{owner}: --{name} must be in 1..{HIGHEST_PORT}, not {number}")
    return number
