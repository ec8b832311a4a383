"""Settings of a local cluster's components, derived from `LocalOptions`."""

from __future__ import annotations

from pathlib import Path

from volcanoio.compose.controllers import ControllerSettings, history_settings
from volcanoio.compose.options import LocalOptions
from volcanoio.compose.scheduler import SchedulerSettings
from volcanoio.engine.admission.request import AdmissionSettings
from volcanoio.engine.scheduling.cluster.state import StateOptions
from volcanoio.framework import entrypoints
from volcanoio.framework.lifecycle import LifecyclePolicy
from volcanoio.framework.scheduling.settings import FeatureGate
from volcanoio.model import names
from volcanoio.runtime.controllers.http_effects import Endpoints
from volcanoio.runtime.loading.configmap_source import ConfigMapKey, controller_config_map
from volcanoio.runtime.loading.registry import Registry


def controller_settings(
    options: LocalOptions, registry: Registry, policies: tuple[LifecyclePolicy, ...] | None, endpoints: Endpoints
) -> ControllerSettings:
    """Return the settings of the controllers; `policies` None takes those of the configuration."""
    conf = options.controller_conf
    default = controller_config_map({}) if conf is None else None
    return ControllerSettings(
        registry=registry,
        configuration_file=conf if isinstance(conf, Path) else None,
        configuration_map=conf if isinstance(conf, ConfigMapKey) else default,
        may_be_missing=conf is None,
        policies_dirs=options.policies_dir,
        controllers_dirs=options.controllers_dir,
        plugins_dirs=options.plugins_dir,
        controllers=tuple(name for entry in options.controllers for name in entry.split(",")),
        scheduler_names=options.scheduler_name,
        inherit_owner_annotations=options.inherit_owner_annotations,
        policies=policies,
        journal=options.journal and options.journal / "controllers",
        history=history_settings(options.history, options.history_rows, options.history_age),
        endpoints=endpoints,
    )


def scheduler_settings(options: LocalOptions, registry: Registry) -> SchedulerSettings:
    """Return the settings of the scheduler."""
    conf = options.scheduler_conf
    return SchedulerSettings(
        registry=registry,
        configuration_file=conf if isinstance(conf, Path) else None,
        configuration_map=conf if isinstance(conf, ConfigMapKey) else None,
        plugins_dirs=options.plugins_dir,
        ignore_unavailable=options.ignore_unavailable_plugins,
        debounce=options.debounce,
        period=options.schedule_period,
        state=StateOptions(
            scheduler_names=frozenset(options.scheduler_name),
            single_pod_schedulers=frozenset({names.DEFAULT_SCHEDULER}.difference(options.scheduler_name)),
            agent_schedulers=frozenset(options.agent_scheduler_name),
            default_queue=options.default_queue,
            feature_gates=options.feature_gates,
            scope=options.scope,
        ),
        journal=options.journal and options.journal / "scheduler",
    )


def admission_settings(options: LocalOptions, registry: Registry) -> AdmissionSettings:
    """Return the settings of the admission."""
    gated = FeatureGate.QUEUE_ADMISSION in options.feature_gates
    return AdmissionSettings(
        job_plugins=registry.factories(entrypoints.JOB_PLUGINS),
        strict=options.strict_admission,
        queue_allocated_pods_check=options.enable_queue_allocated_pods_check,
        scheduler_name=options.scheduler_name[0],
        schedulers=(*options.scheduler_name, names.DEFAULT_SCHEDULER),
        gated_schedulers=options.scheduler_name if gated else (),
        max_queue_depth=options.max_queue_depth,
    )
