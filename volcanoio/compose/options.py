"""Options of a local cluster, checked before anything starts."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from volcanoio.engine.admission.request import MAX_QUEUE_DEPTH
from volcanoio.engine.scheduling.cluster.scope import Scope
from volcanoio.framework.scheduling.settings import FeatureGate
from volcanoio.localcluster.nodes.devices import NodeDevicesError, parse_node_devices
from volcanoio.localcluster.nodes.hollow import NodeResourcesError, parse_node_resources
from volcanoio.localcluster.nodes.numa import NumaShape, NumaShapeError, parse_numa
from volcanoio.localcluster.processes.container_spec import ImageMapError, Images
from volcanoio.model import names
from volcanoio.model.resources import CPU, amounts
from volcanoio.model.validation.dns_names import subdomain_rule
from volcanoio.runtime.accounting.history_store import Limits
from volcanoio.runtime.controllers.setup import DEFAULT_CONTROLLERS
from volcanoio.runtime.loading.configmap_source import PREFIX, ConfigMapKey
from volcanoio.runtime.scheduler.scheduler import DEBOUNCE, PERIOD

HISTORY = "history.sqlite"
"""The file of finished jobs in a data directory."""
DEFAULT_RESOURCES = "cpu=8,memory=32Gi,pods=110,ephemeral-storage=100Gi"


class OptionError(ValueError):
    """An option cannot be used; the message contains its name, the rule and the next step."""


@dataclass(frozen=True, kw_only=True)
class LocalOptions:
    """Options of a local cluster. Times are in seconds; without `data` only a temporary kubeconfig is on disk.

    `node_devices` are devices of each node that pods share (`nodes.devices`), `speed` is the number of the
    cluster's seconds per second; infinite (`max`) skips all waits. `debounce` and `schedule_period` are the
    scheduler's; kubelets observe changes `kubelet_lag` seconds late. With `run`, pods run their commands as local
    processes; `run_image` contains IMAGE=COMMAND for pods without a command. `controllers` is Volcano's list of
    controllers to run, each entry one or several separated by commas; () runs all. `scheduler_name` are the names
    of our scheduler; Jobs without schedulerName get the first. `default_queue` is the queue of PodGroups without
    one, `scope` the part of the cluster that the scheduler acts on (None: all). Pods of `agent_scheduler_name` are
    bound one by one, before all other work. With
    `enable_queue_allocated_pods_check` a queue with pods cannot be deleted. Finished jobs are kept in
    `history_file`, by default in `data` if objects are.
    """

    nodes: int = 4
    node_resources: str = DEFAULT_RESOURCES
    node_devices: str = ""
    node_numa: str = ""
    data: Path | None = None
    memory: bool = True
    port: int = 0
    speed: float = 1.0
    kubelet_lag: float = 0.0
    scheduler_conf: Path | ConfigMapKey | None = None
    controller_conf: Path | ConfigMapKey | None = None
    plugins_dir: tuple[Path, ...] = ()
    policies_dir: tuple[Path, ...] = ()
    controllers_dir: tuple[Path, ...] = ()
    controllers: tuple[str, ...] = DEFAULT_CONTROLLERS
    inherit_owner_annotations: bool = True
    scheduler_name: tuple[str, ...] = (names.SCHEDULER_NAME,)
    default_queue: str = names.DEFAULT_QUEUE
    feature_gates: frozenset[FeatureGate] = frozenset()
    scope: Scope | None = None
    agent_scheduler_name: tuple[str, ...] = ()
    ignore_unavailable_plugins: bool = False
    strict_admission: bool = False
    max_queue_depth: int = MAX_QUEUE_DEPTH
    enable_queue_allocated_pods_check: bool = False
    journal: Path | None = None
    history_file: Path | None = None
    history_rows: int = Limits.rows
    history_age: float = Limits.age
    debounce: float = DEBOUNCE
    schedule_period: float = PERIOD
    run: bool = False
    run_image: tuple[str, ...] = ()

    @property
    def numa(self) -> NumaShape | None:
        """NUMA nodes of each node, None for none. Raises NumaShapeError."""
        cpus = amounts(parse_node_resources(self.node_resources)).get(CPU, 0) // 1000
        return parse_numa(self.node_numa, cpus)

    @property
    def history(self) -> Path | None:
        """The file of finished jobs, None for none."""
        if self.history_file is None and self.data is not None and not self.memory:
            return self.data / HISTORY
        return self.history_file

    @classmethod
    def parse(cls, **given: Any) -> Self:
        """Parse options of a command line; raises OptionError."""
        sources = {name: _source(name, given.get(name)) for name in ("scheduler_conf", "controller_conf")}
        options = cls(**{**given, **sources})
        try:
            parse_node_resources(options.node_resources)
            parse_node_devices(options.node_devices)
            _ = options.numa
        except (NodeResourcesError, NodeDevicesError, NumaShapeError) as error:
            raise OptionError(str(error)) from None
        for flag, number in (("--speed", options.speed), ("--kubelet-lag", options.kubelet_lag)):
            if not math.isfinite(number) and not (flag == "--speed" and number == math.inf):
                raise OptionError(f"{flag}: {number} is not a finite number; give a number such as 10")
        if not options.scheduler_name or not all(options.scheduler_name):
            raise OptionError("--scheduler-name: a name must not be empty; give one such as volcano")
        if rule := subdomain_rule(options.default_queue):
            raise OptionError(f'--default-queue: "{options.default_queue}" cannot be the name of a queue: {rule}')
        if options.schedule_period <= 0:
            raise OptionError("--schedule-period: it must be longer than 0; write for instance 1s")
        _check_run(options)
        for flag, path in (
            ("--scheduler-conf", options.scheduler_conf),
            ("--controller-conf", options.controller_conf),
        ):
            if isinstance(path, Path) and not os.path.isfile(path):  # noqa: PTH113 - False where is_file raises
                raise OptionError(f"{flag}: there is no file {path}; give the path of a YAML file")
        return options


def _source(name: str, given: Path | ConfigMapKey | None) -> Path | ConfigMapKey | None:
    """Return the source of a configuration; raises OptionError for an incomplete ConfigMap key."""
    if not isinstance(given, Path) or not str(given).startswith(PREFIX):
        return given
    try:
        return ConfigMapKey.parse(str(given))
    except ValueError as error:
        raise OptionError(f"--{name.replace('_', '-')}: {error}") from None


def _check_run(options: LocalOptions) -> None:
    """Raise OptionError for options that cannot be combined with local processes."""
    if options.run_image and not options.run:
        raise OptionError("--run-image: it says what to run for an image, so it needs --run")
    if options.run and options.speed != 1.0:
        raise OptionError("--speed: processes take the time they take; leave it at 1 with --run")
    try:
        Images.parse(options.run_image)
    except ImageMapError as error:
        raise OptionError(f"--run-image: {error}") from None
