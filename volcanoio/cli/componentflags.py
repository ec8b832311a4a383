"""The flags of the components: one table for command lines, help, docs/flags.md and tests.

Names and defaults are Volcano's (cmd/scheduler, cmd/controller-manager and cmd/webhook-manager, app/options); `up`,
`demo` and `simulate` share those that concern them. `ComponentCommand` accepts Go's forms of flags. Only click and the
standard library are imported, so that `--help` stays fast.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import click

from volcanoio import __version__
from volcanoio.cli.terminal import Decorator, ReportsErrors, UsageError

if TYPE_CHECKING:
    from volcanoio.engine.scheduling.cluster.scope import Scope
    from volcanoio.framework.scheduling.settings import FeatureGate

_TRUE, _FALSE = ("1", "t", "T", "TRUE", "true", "True"), ("0", "f", "F", "FALSE", "false", "False")
"""The texts that Go's strconv.ParseBool accepts."""


class Kind(NamedTuple):
    """Type of a flag's value: its name in help texts, and the function that parses it or raises ValueError."""

    metavar: str
    parse: Callable[[str], Any]
    is_list: bool = False
    """Whether one value may contain several, separated by commas, and the flag may be repeated."""
    is_optional: bool = False
    """Whether an empty value is accepted and means None; "" is Go's default of such flags."""


def _boolean(text: str) -> bool:
    if text not in (*_TRUE, *_FALSE):
        raise ValueError(f'"{text}" is neither true nor false; write one of these')
    return text in _TRUE


def _number(minimum: float = -math.inf, maximum: float = math.inf) -> Callable[[str], int]:
    limits = f" {minimum} to {maximum}" if maximum < math.inf else f" from {minimum} on" if minimum > -math.inf else ""

    def parse(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            raise ValueError(f'"{text}" is not a whole number{limits}; give one') from None
        if not minimum <= number <= maximum:
            raise ValueError(f'"{text}" is not a whole number{limits}; give one')
        return number

    return parse


def _rate(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = math.nan
    if not math.isfinite(rate):
        raise ValueError(f'"{text}" is not a number of requests per second; give one such as 50, or 0 for no limit')
    return max(0.0, rate)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise ValueError(f'"{text}" is not a number of seconds; give one such as 0.5')
    return seconds


def _duration(text: str) -> float:
    from volcanoio.model.times import parse_duration

    return parse_duration(text)


def _period(text: str) -> float:
    if (seconds := _duration(text)) <= 0:
        raise ValueError("it must be longer than 0; write for instance 1s")
    return seconds


class Address(NamedTuple):
    """Address of a server; `host` "" is every address of the machine, `port` 0 any free port."""

    host: str
    port: int


def _address(text: str) -> Address:
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f'"{text}" is not an address; write HOST:PORT, or :PORT for every address of the machine')
    return Address(host.removeprefix("[").removesuffix("]"), int(port))


def _url(text: str) -> str:
    if not text.startswith(("http://", "https://")):
        raise ValueError(f'"{text}" is not an http(s) URL; write for instance https://127.0.0.1:6443')
    return text.rstrip("/")


def _name(text: str) -> str:
    if not text:
        raise ValueError("a name must not be empty; give one such as volcano")
    return text


def _queue(text: str) -> str:
    from volcanoio.model.validation.dns_names import subdomain_rule

    if rule := subdomain_rule(text):
        raise ValueError(f'"{text}" cannot be the name of a queue: {rule}')
    return text


def _label(text: str) -> tuple[str, str]:
    key, colon, value = text.partition(":")
    if not key or not colon:
        raise ValueError(f"{text} is not a label; write KEY:VALUE, as in zone:a")
    return key.strip(), value.strip()


def _gate(text: str) -> tuple[str, bool]:
    name, _, value = (part.strip() for part in text.partition("="))
    if name not in (known := sorted({*GATES, *_GATES_BY_STAGE})):
        from volcanoio.framework.arguments import suggestion

        raise ValueError(f"{name} is unknown{suggestion(name, known)}")
    if value not in (*_TRUE, *_FALSE):
        raise ValueError(f"{text} is not a switch; write {name}=true or {name}=false")
    return name, value in _TRUE


def _config_map(text: str) -> Any:
    from volcanoio.runtime.loading.configmap_source import ConfigMapKey

    return ConfigMapKey.parse(text)


def _one_of(*names: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in names:
            raise ValueError(f"there is no {text}; write {' or '.join(names)}")
        return text

    return parse


def _shard(text: str) -> str:
    from volcanoio.engine.sharding.configuration import of_flags
    from volcanoio.framework.controller import ShardingSettings

    of_flags(ShardingSettings(scheduler_configs=(text,)))
    return text


def _leases(text: str) -> str:
    if text != "leases":
        raise ValueError(f"there is no lock {text}; write leases, as Kubernetes removed the others")
    return text


BOOL = Kind("BOOL", _boolean)
TEXT = Kind("TEXT", str)
PATH = Kind("PATH", Path, is_optional=True)
PATHS = Kind("PATH", Path, is_list=True)
COUNT = Kind("NUMBER", _number(0))
INTEGER = Kind("NUMBER", _number())
PORT = Kind("NUMBER", _number(1, 65535))
DEPTH = Kind("NUMBER", _number(1))
RATE = Kind("NUMBER", _rate)
SECONDS = Kind("NUMBER", _seconds)
DURATION = Kind("DURATION", _duration)
PERIOD = Kind("DURATION", _period)
ADDRESS = Kind("ADDRESS", _address, is_optional=True)
URL = Kind("URL", _url, is_optional=True)
QUEUE = Kind("NAME", _queue)
NAMES = Kind("NAME", _name, is_list=True)
LIST = Kind("LIST", str, is_list=True)
LABELS = Kind("KEY:VALUE", _label, is_list=True)
GATE_LIST = Kind("NAME=BOOL", _gate, is_list=True)
CONFIG_MAP = Kind("NAMESPACE/NAME/KEY", _config_map, is_optional=True)
LOG_FORMAT = Kind("json|console", _one_of("json", "console"), is_optional=True)
SHARDS = Kind("SCHEDULER", _shard, is_list=True)
SHARDING = Kind("none|hard|soft", _one_of("none", "hard", "soft"))
LOCK = Kind("leases", _leases)

GATES = {
    "CSIStorage": False,
    "CronVolcanoJobSupport": True,
    "DynamicResourceAllocation": True,
    "PodDisruptionBudgetsSupport": True,
    "PodSchedulingReadiness": True,
    "PriorityClass": True,
    "QueueCommandSync": True,
    "ResourceTopology": True,
    "SchedulingGatesQueueAdmission": False,
    "VolcanoJobSupport": True,
    "WorkLoadSupport": True,
}
"""Volcano's feature gates and their defaults."""
STABLE_GATES = ("DynamicResourceAllocation", "PodSchedulingReadiness")
"""Gates of Kubernetes among them; all others are alpha."""
_GATES_BY_STAGE = ("AllAlpha", "AllBeta")
"""Names that set all gates of a stage which are not given themselves; no gate is beta."""

NODE_RESOURCES = "cpu=8,memory=32Gi,pods=110,ephemeral-storage=100Gi"
"""Default of --node-resources."""
ADMISSION_PATHS = (
    "/jobs/mutate,/jobs/validate,/podgroups/mutate,/pods/validate,/pods/mutate,/queues/mutate,/queues/validate"
)
"""Default of --enabled-admission."""


@dataclass(frozen=True)
class Flag:
    """A flag of the commands in `of`, separated by blanks.

    `default` is a text as on the command line, "" for none; `defaults` are those of single commands. `without_effect`
    says why the flag is accepted and changes nothing; "" for a flag that has an effect.
    """

    name: str
    kind: Kind
    default: str
    text: str
    of: str
    without_effect: str = ""
    defaults: Mapping[str, str] = field(default_factory=dict)
    short: str = ""
    is_required: bool = False

    @property
    def variable(self) -> str:
        """Name of the parameter that receives the value."""
        return self.name.replace("-", "_")

    def default_of(self, command: str) -> str:
        """Return the default of a command."""
        return self.defaults.get(command, self.default)


_ALL = "scheduler controllers webhooks"
_EVERY = f"{_ALL} hollow-nodes"
_LOCAL = "up demo"
_LEADING = "scheduler controllers"
_THREADS = "one event loop does this work"
_KLOG = "logs are lines on stderr"
_CACHES = "each component waits until everything is listed, and is ready then"
_NODES = "all nodes are considered"
_CASCADE = "the queue controller closes the children of a queue that is closed"
_DELETABLE = "a queue may be deleted in any state, and --enable-queue-allocated-pods-check keeps those with pods"

FLAGS: tuple[Flag, ...] = (
    Flag("kubeconfig", PATH, "", "Kubeconfig of the cluster; else $KUBECONFIG, ~/.kube/config, the pod's account.",
         _EVERY),
    Flag("master", URL, "", "URL of the API server; replaces that of the kubeconfig.", _EVERY),
    Flag("kube-api-qps", RATE, "0", "Limit of requests per second to the API server; 0 or less for none, as the number "
         "in flight adapts to 429 responses.", _ALL),
    Flag("kube-api-burst", COUNT, "0", "Requests that may exceed --kube-api-qps at once; 0 for one second's.", _ALL),
    # Simulated nodes
    Flag("count", COUNT, "", "Number of nodes; surplus ones of an earlier run are removed. 0 removes all and ends.",
         "hollow-nodes", is_required=True),
    Flag("prefix", TEXT, "hollow", "Node names are PREFIX-0 and up; use one process per prefix.", "hollow-nodes"),
    Flag("node-resources", TEXT, NODE_RESOURCES, "Allocatable resources of each node, as "
         "NAME=QUANTITY[,NAME=QUANTITY...].", f"{_LOCAL} hollow-nodes"),
    Flag("node-devices", TEXT, "", "Devices of each node that pods share, as KIND=COUNT[,FIELD=VALUE], several kinds "
         "separated by semicolons: gpu, vgpu, npu or mindcluster.", f"{_LOCAL} hollow-nodes"),
    Flag("node-numa", TEXT, "", "NUMA nodes of each node, which then assigns CPUs and publishes a Numatopology, as "
         "policy=POLICY[,nodes=NUMBER][,threads=NUMBER].", _LOCAL),
    Flag("kubelet-lag", SECONDS, "0", "Delay, in seconds, with which kubelets observe changes.",
         f"{_LOCAL} hollow-nodes"),
    # What is scheduled, and where
    Flag("scheduler-name", NAMES, "volcano", "Schedule pods with this schedulerName; Jobs without one get the first.",
         f"{_ALL} {_LOCAL} simulate"),
    Flag("agent-scheduler-name", LIST, "", "Bind pods with this schedulerName too, such as agent-scheduler: each "
         "alone and before all other work.", "scheduler up simulate"),
    Flag("scheduler-conf", PATH, "", "Scheduler configuration: a file, or configmap:NAMESPACE/NAME/KEY.",
         f"scheduler {_LOCAL}"),
    Flag("scheduler-conf-configmap", CONFIG_MAP, "", "Read the configuration from this key of a ConfigMap.",
         "scheduler"),
    Flag("disable-default-scheduler-config", BOOL, "false", "Refuse to start with a configuration that cannot be "
         "used, instead of using the default until it is fixed.", "scheduler"),
    Flag("schedule-period", PERIOD, "1s", "Longest time between two cycles.", "scheduler up simulate"),
    Flag("default-queue", QUEUE, "default", "Queue of PodGroups without a queue.", "scheduler up simulate"),
    Flag("node-selector", LABELS, "", "Only nodes with one of these labels; several with commas.",
         "scheduler up simulate"),
    Flag("scheduler-sharding-mode", SHARDING, "none", "Whether nodes outside the scheduler's NodeShard are never used "
         "(hard), or only for what fits no node inside (soft).", "scheduler up simulate"),
    Flag("scheduler-sharding-name", TEXT, "volcano", "Name of that NodeShard.", "scheduler up simulate"),
    Flag("priority-class", BOOL, "true", "Whether PriorityClasses count.", "scheduler up simulate"),
    Flag("csi-storage", BOOL, "true", "Whether storage capacity counts.", "scheduler up simulate"),
    Flag("ignored-provisioners", LIST, "", "Provisioners whose volumes are ignored; several with commas.",
         "scheduler up simulate"),
    Flag("feature-gates", GATE_LIST, "", "Volcano's feature gates; several with commas.", f"{_ALL} up simulate"),
    Flag("plugins-dir", PATHS, "", "Directory of scheduler and job plugins.", f"{_ALL} {_LOCAL} simulate"),
    Flag("ignore-unavailable-plugins", BOOL, "false", "Leave out plugins and actions that are not available yet.",
         f"scheduler {_LOCAL} simulate"),
    Flag("cache-dumper", BOOL, "true", "Write the scheduler's cache to a file on SIGUSR1 and SIGUSR2.", "scheduler"),
    Flag("cache-dump-dir", PATH, "/tmp", "Directory of that file, snapshot-SECONDS.json.", "scheduler"),
    # Controllers
    Flag("controllers", LIST, "*,-sharding-controller", "Controllers to run, separated by commas: * for all, NAME or "
         "+NAME for one, -NAME to exclude one.", f"controllers {_LOCAL}"),
    Flag("sharding-configmap", TEXT, "volcano-sharding-configmap", "ConfigMap of the sharding-controller, key "
         "sharding.yaml.", "controllers"),
    Flag("sharding-configmap-namespace", TEXT, "volcano-system", "Its namespace.", "controllers"),
    Flag("scheduler-configs", SHARDS, "volcano:volcano:0.0:0.6:false:2:100,agent-scheduler:agent:0.7:1.0:true:2:100",
         "Schedulers that divide the nodes, without that ConfigMap: NAME:TYPE:MINCPU:MAXCPU:WARMUP:MINNODES:MAXNODES.",
         "controllers"),
    Flag("shard-sync-period", PERIOD, "60s", "Time between two divisions of the nodes.", "controllers"),
    Flag("enable-node-event-trigger", BOOL, "true", "Divide them also soon after nodes, or the requests on them, "
         "changed much.", "controllers"),
    Flag("controller-conf", PATH, "", "Controller configuration (policies, discovery of HyperNodes): a file, or "
         "configmap:NAMESPACE/NAME/KEY. Without it, volcano-controller.conf in volcano-controller-configmap, if there "
         "is one.", f"controllers {_LOCAL}"),
    Flag("policies-dir", PATHS, "", "Directory of policies.", f"controllers {_LOCAL}"),
    Flag("controllers-dir", PATHS, "", "Directory of controllers.", f"controllers {_LOCAL}"),
    Flag("inherit-owner-annotations", BOOL, "true", "PodGroups of pods without a Job take volcano.sh/ annotations "
         "from the pods' owners.", f"controllers {_LOCAL}"),
    Flag("journal", PATH, "", "Record events and decisions in this directory.", f"{_LEADING} {_LOCAL}"),
    Flag("history-file", PATH, "", "Keep finished jobs in this SQLite file, for `volcanoio history`; `up` has "
         "one in its data directory.", f"controllers {_LOCAL}"),
    Flag("history-rows", DEPTH, "200000", "Maximum of jobs in it; the oldest are removed.", f"controllers {_LOCAL}"),
    Flag("history-age", PERIOD, "2160h", "Time after which jobs are removed from it.", f"controllers {_LOCAL}"),
    # Admission
    Flag("enabled-admission", TEXT, ADMISSION_PATHS, "Paths of the webhooks to serve, separated by commas.",
         "webhooks"),
    Flag("admission-conf", PATH, "", "Configuration of resource groups, reloaded when it changes.", "webhooks"),
    Flag("listen-address", TEXT, "", "Address to listen on; all if empty.", "webhooks"),
    Flag("port", PORT, "8443", "Port to listen on.", "webhooks"),
    Flag("webhook-namespace", TEXT, "volcano-system", "Namespace of the Service that API servers call.", "webhooks"),
    Flag("webhook-service-name", TEXT, "volcano-admission-service", "Name of that Service.", "webhooks"),
    Flag("webhook-url", TEXT, "", "Base URL that API servers call instead of the Service.", "webhooks"),
    Flag("create-webhooks", BOOL, "true", "Create webhook configurations that are missing; false waits for those of an "
         "installer, as Volcano does.", "webhooks"),
    Flag("ca-cert-file", PATH, "", "CA of the serving certificate. Without this and the next two flags, certificates "
         "are made, kept in the Secret volcano-admission-secret, and renewed.", "webhooks"),
    Flag("tls-cert-file", PATH, "", "Serving certificate.", "webhooks"),
    Flag("tls-private-key-file", PATH, "", "Its key.", "webhooks"),
    Flag("enable-queue-allocated-pods-check", BOOL, "false", "Refuse the deletion of a queue that has pods.",
         f"webhooks {_LOCAL}"),
    Flag("max-queue-depth", DEPTH, "5", "Maximum depth of the tree of queues.", f"webhooks {_LOCAL}"),
    Flag("shutdown-delay-duration", DURATION, "5s", "Time for which it still answers after SIGTERM.", "webhooks"),
    Flag("enable-root-queue-protection", BOOL, "true", "Refuse changes of the root queue.", "webhooks"),
    # Endpoints
    Flag("listen-address", ADDRESS, ":8080", "Address of /metrics.", _LEADING, defaults={"controllers": ":8081"}),
    Flag("enable-metrics", BOOL, "false", "Serve metrics at --listen-address.", _LEADING),
    Flag("enable-metrics", BOOL, "false", "Serve /metrics at --healthz-address.", "webhooks"),
    Flag("metrics-series-limit", DEPTH, "5000", "Maximum of series of a metric that has one for each job or pod.",
         _LEADING),
    Flag("metrics-per-pod", BOOL, "false", "Report each pod with its job and queue (volcanoio_task_queue); raise "
         "--metrics-series-limit too.", "scheduler"),
    Flag("enable-pprof", BOOL, "false", "Serve /debug/profile?seconds=N at --listen-address: sampled stacks.",
         _LEADING),
    Flag("healthz-address", ADDRESS, ":11251", "Address of /healthz, /livez and /readyz.", _EVERY),
    Flag("enable-healthz", BOOL, "false", "Serve them.", _EVERY),
    Flag("answers-address", ADDRESS, "", "Loopback address, such as 127.0.0.1:11252, of /debug/why and "
         "/debug/snapshot, which `volcanoio why` asks; none if empty.", "scheduler"),
    Flag("ca-cert-file", PATH, "", "CA of clients. With this and the next two flags, endpoints are served by HTTPS.",
         _LEADING),
    Flag("tls-cert-file", PATH, "", "Certificate of these endpoints.", _LEADING),
    Flag("tls-private-key-file", PATH, "", "Its key.", _LEADING),
    Flag("graceful-shutdown-time", DURATION, "20s", "Longest time for requests in flight after SIGTERM.", _ALL,
         defaults={"webhooks": "30s"}),
    # Leader election
    Flag("leader-elect", BOOL, "true", "Run only while holding a Lease.", _LEADING),
    Flag("leader-elect-lease-duration", PERIOD, "15s", "Time after which others may take a Lease that was not "
         "renewed.", _LEADING),
    Flag("leader-elect-renew-deadline", PERIOD, "10s", "Time after the last renewal at which the leader stops.",
         _LEADING),
    Flag("leader-elect-retry-period", PERIOD, "2s", "Time between attempts to take or renew the Lease.", _LEADING),
    Flag("leader-elect-resource-lock", LOCK, "leases", "Kind of the lock.", _LEADING),
    Flag("leader-elect-resource-name", TEXT, "", "Name of the Lease; that of the first --scheduler-name if empty.",
         _LEADING, defaults={"controllers": "vc-controller-manager"}),
    Flag("leader-elect-resource-namespace", TEXT, "volcano-system", "Namespace of the Lease.", _LEADING),
    Flag("lock-object-namespace", TEXT, "", "The same, Volcano's older name; this one wins.", _LEADING),
    # Logs
    Flag("v", INTEGER, "0", "Log level: 0 to 3 for info, 4 and above for debug.", _EVERY, short="v"),
    Flag("log-format", LOG_FORMAT, "", "Format of log lines; json unless stderr is a terminal.", _EVERY),
    # Without effect
    Flag("resync-period", DURATION, "0", "", "scheduler", "watches are resumed without loss"),
    Flag("resource-sync-timeout", DURATION, "60s", "", "scheduler", _CACHES),
    Flag("minimum-feasible-nodes", INTEGER, "100", "", "scheduler up simulate", _NODES),
    Flag("minimum-percentage-nodes-to-find", INTEGER, "5", "", "scheduler up simulate", _NODES),
    Flag("percentage-nodes-to-find", INTEGER, "0", "", "scheduler up simulate", _NODES),
    Flag("node-worker-threads", COUNT, "20", "", "scheduler", _THREADS),
    Flag("gate-removal-worker-num", INTEGER, "5", "", "scheduler", _THREADS),
    Flag("custom-resource-gvr", LIST, "", "", "scheduler", "plugins declare the kinds that they read"),
    *(
        Flag(f"worker-threads{queue}", COUNT, number, "", "controllers", _THREADS)
        for queue, number in (("", "3"), ("-for-cronjob", "3"), ("-for-podgroup", "5"), ("-for-queue", "5"),
                              ("-for-gc", "1"))
    ),
    Flag("enable-cascade-child-queue-close", BOOL, "false", "", "webhooks", _CASCADE),
    Flag("enable-queue-closed-before-delete-check", BOOL, "false", "", "webhooks", _DELETABLE),
    Flag("max-requeue-num", INTEGER, "15", "", "controllers", "a failed write is retried with back-off"),
    *(
        Flag(name, kind, default, "", _EVERY, _KLOG)
        for name, kind, default in (
            ("logtostderr", BOOL, "true"), ("alsologtostderr", BOOL, "false"), ("log-dir", TEXT, ""),
            ("log-file", TEXT, ""), ("log-file-max-size", COUNT, "1800"), ("log-backtrace-at", TEXT, ":0"),
            ("log-flush-frequency", DURATION, "5s"), ("add-dir-header", BOOL, "false"), ("one-output", BOOL, "false"),
            ("skip-headers", BOOL, "false"), ("skip-log-headers", BOOL, "false"), ("stderrthreshold", TEXT, "2"),
            ("legacy-stderr-threshold-behavior", BOOL, "true"), ("vmodule", TEXT, ""),
        )
    ),
)  # fmt: skip
"""All flags, in the order of help texts."""


def flags_of(command: str) -> tuple[Flag, ...]:
    """Return the flags of a command."""
    return tuple(flag for flag in FLAGS if command in flag.of.split())


class _Value(click.ParamType[Any]):
    """Value of a flag; an invalid one raises UsageError with the flag's name, the rule and the next step."""

    def __init__(self, flag: Flag) -> None:
        self.name = flag.kind.metavar
        self._flag = flag

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ARG002
        """Return the parsed value; a list for a flag with several."""
        if not isinstance(value, str):
            return value
        kind = self._flag.kind
        try:
            if not kind.is_list:
                return None if kind.is_optional and not value else kind.parse(value)
            return [kind.parse(entry.strip()) for entry in value.split(",") if entry.strip() or kind is NAMES]
        except ValueError as error:
            raise UsageError(f"--{self._flag.name}: {error}") from None


def _collected(context: click.Context, parameter: click.Parameter, value: Any) -> Any:  # noqa: ARG001
    """Return the values of a flag that was repeated as one tuple."""
    return tuple(entry for entries in value or () for entry in entries)


def _option(flag: Flag, command: str) -> Decorator:
    """Return a flag as click's option; "" as default means None for a single value."""
    names = [f"-{flag.short}"] if flag.short else []
    kind, default = flag.kind, flag.default_of(command)
    given: dict[str, Any] = {"type": _Value(flag), "metavar": kind.metavar, "show_default": bool(default)}
    if kind.is_list:
        given |= {"multiple": True, "callback": _collected, "default": (default,) if default else ()}
    elif flag.is_required:
        given["required"] = True
    else:
        given |= {"default": default if default or kind is TEXT else None}
    if kind is BOOL:
        given |= {"is_flag": False, "flag_value": "true"}
    text = flag.text or f"Accepted without effect: {flag.without_effect}."
    return click.option(
        *names, f"--{flag.name}", flag.variable, help=text, expose_value=not flag.without_effect, **given
    )


def options(*decorators: Decorator) -> Decorator:
    """Combine options that several commands share, in their order."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(decorators):
            command = option(command)
        return command

    return add


def flags(command: str, *, without: Sequence[str] = (), only: Sequence[str] = ()) -> Decorator:
    """Return the flags of a command as options, without some or only some of them."""
    chosen = [flag for flag in flags_of(command) if flag.name not in without and (not only or flag.name in only)]
    return options(*(_option(flag, command) for flag in chosen))


SCHEDULING = tuple(flag.name for flag in flags_of("simulate") if "demo" not in flag.of.split())
"""Flags of Volcano's scheduler that `up` and `simulate` share and `demo` does not have."""


def notes(context: click.Context) -> tuple[str, ...]:
    """Return one line per reason about the given flags without effect."""
    reasons: dict[str, list[str]] = {}
    for flag in FLAGS:
        source = context.get_parameter_source(flag.variable) if flag.without_effect else None
        if source is click.core.ParameterSource.COMMANDLINE and flag.without_effect != _KLOG:
            reasons.setdefault(flag.without_effect, []).append(f"--{flag.name}")
    return tuple(f"{', '.join(names)}: without effect, as {reason}" for reason, names in reasons.items())


_DEBUG = 4
"""Value of -v from which debug lines are logged, as in Volcano."""


def set_up_logs(given: dict[str, Any]) -> None:
    """Set up logs as the flags of logs describe, and log which flags of the current command have no effect."""
    import structlog

    from volcanoio.runtime import logs

    form: Literal["json", "console"] = given.pop("log_format") or ("console" if sys.stderr.isatty() else "json")
    logs.set_up(form=form, level="debug" if given.pop("v") >= _DEBUG else "info")
    for note in notes(click.get_current_context()):
        structlog.get_logger(__name__).info("flag without effect", note=note)


class ComponentCommand(ReportsErrors, click.Command):
    """A command that accepts flags in Go's forms: `-flag`, `--flag`, `--flag=true`, `_` for `-`, the last one wins.

    The word `2>&1` is ignored: the charts of Volcano pass it, as if a shell read the command.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the command line; raises UsageError for an unknown flag or a word that is not a flag."""
        return super().parse_args(ctx, self._normalized(ctx, args))

    def _normalized(self, context: click.Context, words: Sequence[str]) -> list[str]:
        known = {
            name.lstrip("-"): option
            for option in self.get_params(context)
            if isinstance(option, click.Option)
            for name in option.opts
        }
        found: list[str] = []
        waiting = iter(words)
        for word in waiting:
            if word == "2>&1":
                continue
            name, equals, value = word.lstrip("-").partition("=")
            name = name.replace("_", "-")
            if word.startswith("-v") and word[2:].isdecimal():  # -v3
                name, equals, value = "v", "=", word[2:]
            if not word.startswith("-") or not name:
                msg = f'"{word}" is not a flag; write --NAME=VALUE, a switch as --NAME=false'
                raise UsageError(f"{msg}; {context.command_path} --help lists the flags")
            if name not in known:
                from volcanoio.framework.arguments import suggestion

                near = suggestion(name, list(known))
                near = near.replace('"', "").replace("you mean ", "you mean --") if "did you mean" in near else ""
                raise UsageError(f"--{name}: there is no such flag{near}; {context.command_path} --help lists all")
            option = known[name]
            if not equals and not (option.is_flag or option.flag_value == "true"):
                value = next(waiting, None)  # type: ignore[assignment]
                if value is None:
                    raise UsageError(f"--{name}: its value is missing; write --{name}={option.metavar}")
                equals = "="
            longest = max(option.opts, key=len)
            found.append(f"{longest}={value}" if equals else longest)
        return found


def version_flag(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add Volcano's --version."""

    def show(context: click.Context, parameter: click.Parameter, value: bool) -> None:  # noqa: ARG001
        if value:
            print(f"volcanoio {__version__}")
            context.exit()

    flag = Flag("version", BOOL, "false", "Print the version and exit.", "")
    return click.option(
        "--version", type=_Value(flag), is_flag=False, flag_value="true", default="false", is_eager=True,
        expose_value=False, callback=show, show_default=False, metavar="", help=flag.text,
    )(command)  # fmt: skip


class SchedulerFlags(NamedTuple):
    """Values of the flags in SCHEDULING. `period` is in seconds, `notes` contains flags without effect."""

    default_queue: str
    period: float
    scope: Scope | None
    feature_gates: frozenset[FeatureGate]
    notes: tuple[str, ...]
    agent_schedulers: tuple[str, ...] = ()

    @classmethod
    def take(cls, given: dict[str, Any]) -> SchedulerFlags:
        """Remove the flags from the options of the current command, and return what they mean."""
        from volcanoio.framework.scheduling.settings import FeatureGate

        gates = gates_of(given.pop("feature_gates"))
        said = notes(click.get_current_context())
        effective = {"PodDisruptionBudgetsSupport", "PriorityClass", *FeatureGate}
        return cls(
            agent_schedulers=given.pop("agent_scheduler_name"),
            default_queue=given.pop("default_queue"),
            period=given.pop("schedule_period"),
            scope=_scope(given, gates),
            feature_gates=frozenset(gate for gate in FeatureGate if gates[gate]),
            notes=(*said, *gate_notes(gates, effective)),
        )


def gates_of(given: Sequence[tuple[str, bool]]) -> dict[str, bool]:
    """Return all gates: each as it was given, else as AllAlpha was, else its default."""
    named = dict(given)
    alpha = {name: named["AllAlpha"] for name in GATES if name not in STABLE_GATES} if "AllAlpha" in named else {}
    return GATES | alpha | {name: on for name, on in named.items() if name in GATES}


def gate_notes(gates: Mapping[str, bool], effective: Collection[str]) -> tuple[str, ...]:
    """Return a line about the gates that differ from their default without effect."""
    changed = [name for name, on in gates.items() if on is not GATES[name] and name not in effective]
    return (f"--feature-gates: {', '.join(changed)}: without effect here",) if changed else ()


def _scope(given: dict[str, Any], gates: Mapping[str, bool]) -> Scope | None:
    from volcanoio.engine.scheduling.cluster.scope import Scope
    from volcanoio.engine.scheduling.sharding.node_shards import Sharding, ShardingMode
    from volcanoio.model import kinds

    without = []
    if not (given.pop("priority_class") and gates["PriorityClass"]):
        without.append(kinds.PRIORITY_CLASS.resource)
    if not given.pop("csi_storage"):
        without += [kinds.CSI_DRIVER.resource, kinds.CSI_CAPACITY.resource]
    if not gates["PodDisruptionBudgetsSupport"]:
        without.append(kinds.PDB.resource)
    mode, name = given.pop("scheduler_sharding_mode"), given.pop("scheduler_sharding_name")
    scope = Scope(
        tuple(without),
        given.pop("node_selector"),
        given.pop("ignored_provisioners"),
        sharding=None if mode == "none" else Sharding(ShardingMode(mode), name),
    )
    return scope if scope != Scope() else None
