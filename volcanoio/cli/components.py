"""Commands that run one component in a cluster: `volcanoio scheduler`, `controllers` and `webhooks`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import structlog

from volcanoio.cli.componentflags import SchedulerFlags, gate_notes, gates_of, set_up_logs
from volcanoio.cli.terminal import UsageError, sole_error
from volcanoio.compose.component import (
    Build,
    Component,
    ComponentSettings,
    ConnectionSettings,
    EndpointSettings,
    run_until_signal,
)
from volcanoio.compose.controllers import ControllerManager, ControllerSettings, history_settings
from volcanoio.compose.scheduler import SchedulerProcess, SchedulerSettings
from volcanoio.compose.webhooks import WebhookManager, WebhookSettings
from volcanoio.engine.admission.request import AdmissionSettings
from volcanoio.engine.admission.resource_groups import AdmissionConfError
from volcanoio.engine.scheduling.cluster.state import StateOptions
from volcanoio.engine.scheduling.config.configuration import ConfigurationError as SchedulerConfigurationError
from volcanoio.framework import entrypoints
from volcanoio.framework.controller import ShardingSettings
from volcanoio.framework.scheduling.settings import FeatureGate
from volcanoio.kube.clock import WallClock
from volcanoio.kube.kubeconfig import ConfigError
from volcanoio.kube.leader_election import Leadership, LeaseSettings, LeaseSettingsError
from volcanoio.kube.transport import Transport
from volcanoio.model import names
from volcanoio.runtime.endpoints import EndpointError, TlsFiles
from volcanoio.runtime.loading.configmap_source import PREFIX, ConfigMapKey, controller_config_map
from volcanoio.runtime.loading.mounted_files import MountError
from volcanoio.runtime.loading.registry import PluginError, discover
from volcanoio.runtime.metrics import SERIES_LIMIT, PrometheusProbe
from volcanoio.runtime.policies.configuration import ConfigurationError
from volcanoio.runtime.scheduler.answers import is_loopback
from volcanoio.runtime.webhooks.certificates import CertificateError
from volcanoio.runtime.webhooks.paths import PathError, Target, parse_paths

_USAGE_ERRORS = (
    AdmissionConfError, CertificateError, ConfigError, EndpointError, MountError, PathError, PluginError
)  # fmt: skip
EVENT_LOOP: dict[str, Any] = {"use_uvloop": sys.platform != "win32"}
"""Options of `anyio.run`: uvloop takes a tenth less CPU time than asyncio's loop, for TLS and sockets most of all."""
_log = structlog.get_logger(__name__)


def run_scheduler(**given: Any) -> int:
    """Run the scheduler until a signal; returns the exit code. Raises CommandError."""
    set_up_logs(given)
    connection, component = _component("volcano-scheduler", given, tls=_certificate_files(given))
    flags = SchedulerFlags.take(given)
    file, config_map = _configuration(given)
    with _command_errors(file or config_map):
        schedulers = given["scheduler_name"]
        _text("--scheduler-conf", file)  # a file that cannot be read is an error, whatever else the flags allow
        settings = SchedulerSettings(
            registry=discover(plugins_dirs=given["plugins_dir"]),
            configuration_file=file,
            configuration_map=config_map,
            require_configuration=given["disable_default_scheduler_config"],
            plugins_dirs=given["plugins_dir"],
            ignore_unavailable=given["ignore_unavailable_plugins"],
            period=flags.period,
            pod_metrics=given["metrics_per_pod"],
            state=StateOptions(
                scheduler_names=frozenset(schedulers),
                agent_schedulers=frozenset(flags.agent_schedulers),
                default_queue=flags.default_queue,
                feature_gates=flags.feature_gates,
                scope=flags.scope,
            ),
            journal=given["journal"],
            lease=_lease_name(given),
        )
        if component.lease is not None:
            component = replace(component, lease=replace(component.lease, annotations=settings.share.annotations()))
        if given["cache_dumper"]:
            component = replace(component, dumps=given["cache_dump_dir"] or Path())

        def build(transport: Transport, probe: PrometheusProbe, leader: Leadership | None) -> SchedulerProcess:
            return SchedulerProcess(transport, clock=WallClock(), settings=settings, probe=probe, leadership=leader)

        return anyio.run(_run, connection, component, build, backend_options=EVENT_LOOP)


def run_controllers(**given: Any) -> int:
    """Run the controllers until a signal; returns the exit code. Raises CommandError."""
    set_up_logs(given)
    connection, component = _component("volcano-controllers", given, tls=_certificate_files(given))
    gates = gates_of(given["feature_gates"])
    for note in gate_notes(gates, _GATED.keys()):
        _log.info("flag without effect", note=note)
    file, config_map = _source("--controller-conf", given["controller_conf"])
    with _command_errors(file or config_map):
        registry = discover(
            plugins_dirs=given["plugins_dir"],
            policies_dirs=given["policies_dir"],
            controllers_dirs=given["controllers_dir"],
        )
        settings = ControllerSettings(
            registry=registry,
            configuration=_text("--controller-conf", file) or "",
            configuration_file=file,
            configuration_map=config_map or (None if file else controller_config_map(os.environ)),
            require_configuration=bool(config_map),
            may_be_missing=config_map is None,
            policies_dirs=given["policies_dir"],
            controllers_dirs=given["controllers_dir"],
            plugins_dirs=given["plugins_dir"],
            controllers=selected_controllers(given["controllers"], gates),
            scheduler_names=given["scheduler_name"],
            inherit_owner_annotations=given["inherit_owner_annotations"],
            sharding=ShardingSettings(
                configmap=given["sharding_configmap"],
                configmap_namespace=given["sharding_configmap_namespace"],
                scheduler_configs=given["scheduler_configs"],
                sync_period=given["shard_sync_period"],
                node_events=given["enable_node_event_trigger"],
            ),
            journal=given["journal"],
            history=history_settings(given["history_file"], given["history_rows"], given["history_age"]),
        )

        def build(transport: Transport, probe: PrometheusProbe, leader: Leadership | None) -> ControllerManager:
            return ControllerManager(transport, clock=WallClock(), settings=settings, probe=probe, leadership=leader)

        return anyio.run(_run, connection, component, build, backend_options=EVENT_LOOP)


def run_webhooks(**given: Any) -> int:
    """Run the admission until a signal; returns the exit code. Raises CommandError."""
    set_up_logs(given)
    files = _certificate_files(given)
    connection, component = _component("volcano-admission", given, tls=files, metrics="healthz_address")
    gates = gates_of(given["feature_gates"])
    for note in gate_notes(gates, tuple(FeatureGate)):
        _log.info("flag without effect", note=note)
    schedulers = given["scheduler_name"]
    with _command_errors(given["admission_conf"]):
        target = Target(
            namespace=given["webhook_namespace"],
            service=given["webhook_service_name"],
            url=given["webhook_url"],
            creates=given["create_webhooks"],
            rows=parse_paths(given["enabled_admission"]),
        )
        admission = AdmissionSettings(
            gated_schedulers=schedulers if gates[FeatureGate.QUEUE_ADMISSION] else (),
            scheduler_name=schedulers[0],
            schedulers=(*schedulers, names.DEFAULT_SCHEDULER),
            job_plugins=discover(plugins_dirs=given["plugins_dir"]).factories(entrypoints.JOB_PLUGINS),
            max_queue_depth=given["max_queue_depth"],
            root_queue_protection=given["enable_root_queue_protection"],
            queue_allocated_pods_check=given["enable_queue_allocated_pods_check"],
        )
        settings = WebhookSettings(
            admission=admission,
            target=target,
            listen_address=given["listen_address"],
            port=given["port"],
            certificate_files=files and (files.certificate, files.key, files.authority),
            admission_conf=given["admission_conf"],
            graceful_shutdown_time=given["graceful_shutdown_time"],
            shutdown_delay=given["shutdown_delay_duration"],
        )

        def build(transport: Transport, probe: PrometheusProbe, _leader: Leadership | None) -> WebhookManager:
            return WebhookManager(transport, settings=settings, probe=probe)

        return anyio.run(_run, connection, component, build, backend_options=EVENT_LOOP)


_GATED = {"CronVolcanoJobSupport": "cronjob-controller", "VolcanoJobSupport": "job-controller"}
"""Feature gates that switch a controller off."""


def selected_controllers(entries: tuple[str, ...], gates: dict[str, bool]) -> tuple[str, ...]:
    """Return the list of controllers, all if it is empty, without those whose gate is off."""
    off = {controller for gate, controller in _GATED.items() if not gates[gate]}
    kept = [entry for entry in entries or ("*",) if entry.lstrip("+-") not in off]
    return (*kept, *(f"-{name}" for name in sorted(off)))


async def _run(connection: ConnectionSettings, settings: ComponentSettings, build: Build) -> int:
    return await run_until_signal(Component(await connection.load(), settings, build))


def _certificate_files(given: dict[str, Any]) -> TlsFiles | None:
    """Return the three files of HTTPS, None if none is given; raises UsageError."""
    files = {flag: given[flag.replace("-", "_")] for flag in ("ca-cert-file", "tls-cert-file", "tls-private-key-file")}
    missing = [flag for flag, path in files.items() if path is None]
    if missing and len(missing) < len(files):
        raise UsageError(f"--{missing[0]} is missing: HTTPS needs the three files; give it, or none of them")
    return None if missing else TlsFiles(*files.values())


def _component(
    name: str, given: dict[str, Any], *, tls: TlsFiles | None = None, metrics: str = "listen_address"
) -> tuple[ConnectionSettings, ComponentSettings]:
    """Return the settings that all components have; raises UsageError.

    `tls` is for the endpoints, `metrics` the flag with the address of metrics.
    """
    endpoints = EndpointSettings(
        health=given["healthz_address"] if given["enable_healthz"] else None,
        metrics=given[metrics] if given["enable_metrics"] else None,
        profile=given[metrics] if given.get("enable_pprof") else None,
        answers=_answers_address(given.get("answers_address")),
        tls=tls,
    )
    connection = ConnectionSettings(kubeconfig=given["kubeconfig"], master=given["master"] or "")
    settings = ComponentSettings(
        name=name,
        endpoints=endpoints,
        lease=_lease(given),
        qps=given["kube_api_qps"],
        burst=given["kube_api_burst"],
        grace=given["graceful_shutdown_time"],
        series_limit=given.get("metrics_series_limit", SERIES_LIMIT),
    )
    return connection, settings


def _answers_address(address: tuple[str, int] | None) -> tuple[str, int] | None:
    """Return the address of answers; raises UsageError for one that others can reach."""
    if address is not None and not is_loopback(address[0]):
        raise UsageError(
            f"--answers-address: {address[0] or 'every address'} can be reached by others, and answers need no "
            "credentials; write 127.0.0.1:PORT, and reach it with kubectl port-forward"
        )
    return address


def _lease_name(given: dict[str, Any]) -> tuple[str, str]:
    """Return the namespace and name of the component's Lease."""
    namespace: str = given["lock_object_namespace"] or given["leader_elect_resource_namespace"]
    return namespace, given["leader_elect_resource_name"] or given["scheduler_name"][0]


def _lease(given: dict[str, Any]) -> LeaseSettings | None:
    """Return the lease to compete for, None without leader election; raises UsageError."""
    if not given.get("leader_elect"):
        return None
    namespace, name = _lease_name(given)
    try:
        return LeaseSettings(
            name=name,
            namespace=namespace,
            duration=given["leader_elect_lease_duration"],
            renew_deadline=given["leader_elect_renew_deadline"],
            retry_period=given["leader_elect_retry_period"],
        )
    except LeaseSettingsError as error:
        raise UsageError(f"--{error}") from None


def _configuration(given: dict[str, Any]) -> tuple[Path | None, ConfigMapKey | None]:
    """Return the source of the scheduler's configuration, a file or a ConfigMap; raises UsageError."""
    file, config_map = _source("--scheduler-conf", given["scheduler_conf"])
    if file is not None and given["scheduler_conf_configmap"] is not None:
        raise UsageError("--scheduler-conf and --scheduler-conf-configmap exclude each other; give one of them")
    return file, given["scheduler_conf_configmap"] or config_map


def _source(flag: str, given: Path | None) -> tuple[Path | None, ConfigMapKey | None]:
    """Return the file or the ConfigMap that a flag names; raises UsageError."""
    if given is None or not str(given).startswith(PREFIX):
        return given, None
    try:
        return None, ConfigMapKey.parse(str(given))
    except ValueError as error:
        raise UsageError(f"{flag}: {error}") from None


def _text(flag: str, file: Path | None) -> str | None:
    if file is None:
        return None
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{flag}: {file}: {error.strerror}; give the path of a YAML file") from None
    except UnicodeDecodeError:
        raise UsageError(f"{flag}: {file}: not UTF-8 text; give a YAML file") from None


@contextmanager
def _command_errors(source: Path | ConfigMapKey | None) -> Iterator[None]:
    """Convert errors of configuration (which name `source`), plugins, connection and addresses to UsageErrors."""
    try:
        yield
    except Exception as error:
        problem = sole_error(error)
        if isinstance(problem, SchedulerConfigurationError | ConfigurationError):
            lines = str(problem).splitlines()
            raise UsageError("\n".join(f"{source}: {line}" for line in lines) if source else problem) from None
        if isinstance(problem, _USAGE_ERRORS):
            raise UsageError(problem) from None
        raise
