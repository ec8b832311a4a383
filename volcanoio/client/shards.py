"""Shards of `map`: one Job with a pod per shard, which finds its own by VC_TASK_INDEX.

A ConfigMap beside the Job contains the table of shards, one per line, and for functions the program that runs them. A
function is sent as source text with the modules, functions and constants of its module that it names, so that the image
needs Python and the libraries, but nothing of volcanoio.
"""

from __future__ import annotations

import ast
import dis
import inspect
import json
import re
import shlex
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple, TypeAlias

from volcanoio.client.errors import ClientError, InvalidJob
from volcanoio.client.specification import Command, JobOptions, command_line, job_manifest
from volcanoio.model import kinds, names
from volcanoio.model.base import Manifest
from volcanoio.model.core import Pod

Row: TypeAlias = Mapping[str, Any] | str | int | float
"""One shard: variables by name, or a single value."""
Work: TypeAlias = Command | Callable[[Any], Any]
"""What each shard runs: a command, or a function of the shard."""
DIRECTORY = "/etc/volcano-shards"
TABLE, PROGRAM = "table", "run.py"
"""Keys of the ConfigMap."""
MOST_BYTES = 1_000_000
"""Size of a table with its program; a ConfigMap takes 1 MiB."""
MOST_RESULT = 4000
"""Bytes of a function's result as JSON; a termination message takes 4096."""
_MAIN = "_volcanoio_run_shard"
"""The function of a program that runs the user's; its variables must not replace those of the user's module."""
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PICK = f'eval "$(sed -n "$((VC_TASK_INDEX + 1))p" {DIRECTORY}/{TABLE})"; exec "$@"'
"""Shell text that sets the variables of the pod's shard and continues with the command."""


class Sharded(NamedTuple):
    """A Job of shards, and the data of the ConfigMap that it needs; {} for none."""

    job: Manifest
    data: dict[str, str]

    def config_map(self, job: str, namespace: str, uid: str) -> Manifest:
        """Return the ConfigMap beside a stored Job, with which it is deleted."""
        owner = {"apiVersion": kinds.JOB.api_version, "kind": "Job", "name": job, "uid": uid}
        metadata = {"name": table_name(job), "namespace": namespace, "ownerReferences": [owner]}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": self.data}


def table_name(job: str) -> str:
    """Return the name of the ConfigMap of a Job of shards."""
    return f"{job}-shards"


def sharded_job(
    work: Work,
    options: JobOptions,
    *,
    shards: int | None = None,
    days: tuple[date | str, date | str] | None = None,
    rows: Iterable[Row] | None = None,
) -> Sharded:
    """Return the Job of which each pod runs `work` for one shard. Raises InvalidJob."""
    if sum(each is not None for each in (shards, days, rows)) != 1:
        raise InvalidJob(
            "map() divides the work by one of shards=N, days=(first, last) and rows=[...]; give one of them"
        )
    if misplaced := sorted({"tasks", "replicas", "command", "args"} & options.keys()):
        raise InvalidJob(f"map() has no {misplaced[0]}: its command is the first argument, its pods are the shards")
    values = None if shards is not None else list(_days(*days)) if days is not None else list(rows or ())
    count = len(values) if values is not None else shards or 0
    if count < 1:
        raise InvalidJob("map() has no shards; give shards=1 or more, or at least one row")
    data: dict[str, str] = {}
    if callable(work):
        command, name = ["python3", f"{DIRECTORY}/{PROGRAM}"], work.__name__.strip("_").replace("_", "-").lower()
        data[PROGRAM] = program_of(work, by_day=days is not None, has_table=values is not None)
        if values is not None:
            data[TABLE] = "".join(f"{json.dumps(_plain(value, at))}\n" for at, value in enumerate(values))
    else:
        command, name = command_line(work), ""
        if values is not None:
            data[TABLE] = "".join(f"{_assignments(value, at)}\n" for at, value in enumerate(values))
            command = ["/bin/sh", "-c", _PICK, "sh", *command]
    _check_size(data)
    return Sharded(_job(options, name, count, command, mounted=bool(data)), data)


def _job(options: JobOptions, name: str, count: int, command: Sequence[str], *, mounted: bool) -> Manifest:
    plugins = options.get("plugins", ())
    with_index = {"env": (), **(plugins if isinstance(plugins, Mapping) else dict.fromkeys(plugins, ()))}
    variables: dict[str, Any] = {"VC_SHARDS": count, **({"VC_RESULT": "/dev/termination-log"} if name else {})}
    given: JobOptions = {
        "min_available": 1,
        "min_success": count,
        **options,
        "replicas": count,
        "command": command,
        "env": {**options.get("env", {}), **variables},
        "plugins": with_index,
    }
    if not options.get("image") and name:
        raise InvalidJob(f'map({name}) runs a Python function, so it needs an image with python3: image="python:3.12"')
    manifest = job_manifest(given)
    if name and not options.get("name"):
        suffix = manifest["metadata"]["name"].rpartition("-")[2]
        manifest["metadata"]["name"] = f"{name[:40]}-{suffix}"
    if mounted:
        _mount(manifest["spec"]["tasks"][0], table_name(manifest["metadata"]["name"]))
    return manifest


def _mount(task: Manifest, config_map: str) -> None:
    """Mount the ConfigMap in the main container."""
    spec = task["template"]["spec"]
    container = spec["containers"][0]
    container["volumeMounts"] = [*container.get("volumeMounts", ()), {"name": "shards", "mountPath": DIRECTORY}]
    spec["volumes"] = [*spec.get("volumes", ()), {"name": "shards", "configMap": {"name": config_map}}]


def _check_size(data: Mapping[str, str]) -> None:
    size = sum(len(text.encode()) for text in data.values())
    if size > MOST_BYTES:
        rule = f"the table of shards has {size:,} bytes, and a ConfigMap takes {MOST_BYTES:,}"
        raise InvalidJob(f"{rule}; put the rows into storage that the pods read, and give shards= with their number")


def _days(first: date | str, last: date | str) -> Iterator[str]:
    """Yield the dates from the first to the last day, both included."""
    try:
        begin, end = (_day(each) for each in (first, last))
    except (TypeError, ValueError):
        raise InvalidJob(f"days: {first!r} to {last!r} are no days; write them as 2026-01-31") from None
    if end < begin:
        raise InvalidJob(f"days: {end} is before {begin}; give the first day first")
    for number in range((end - begin).days + 1):
        yield (begin + timedelta(days=number)).isoformat()


def _day(value: date | str) -> date:
    """Return a day as a date; of a datetime, which is a date, too, the time is dropped."""
    if isinstance(value, datetime):
        return value.date()
    return value if isinstance(value, date) else date.fromisoformat(value)


def _plain(value: Any, at: int) -> Any:
    """Return a row as JSON has it. Raises InvalidJob."""
    try:
        json.dumps(value)
    except (TypeError, ValueError) as error:
        raise InvalidJob(f"rows[{at}]: {error}; give texts, numbers, lists and mappings") from None
    return value


def _assignments(value: Any, at: int) -> str:
    """Return the shell text that sets the variables of one shard."""
    variables = dict(value) if isinstance(value, Mapping) else {}
    shard = json.dumps(_plain(value, at)) if isinstance(value, Mapping) else str(value)
    for name, text in variables.items():
        if _VARIABLE.fullmatch(str(name)) is None:
            raise InvalidJob(f'rows[{at}]: "{name}" cannot be a variable; use letters, digits and _')
        if "\n" in str(text):
            raise InvalidJob(f'rows[{at}]: "{name}" has a line break; encode it, for instance with base64')
    if "\n" in shard:
        raise InvalidJob(f"rows[{at}]: a row has a line break; encode it, for instance with base64")
    pairs = ({"VC_SHARD": shard} | {str(name): str(text) for name, text in variables.items()}).items()
    return "export " + " ".join(f"{name}={shlex.quote(text)}" for name, text in pairs)


def program_of(function: Callable[[Any], Any], *, by_day: bool, has_table: bool) -> str:
    """Return a program that calls the function with its shard and stores the result. Raises InvalidJob."""
    shard = "json.loads(line)" if has_table else "index"
    lines = [
        "from __future__ import annotations",
        *_definitions(function, {}),
        f"def {_MAIN}(function):",
        "    import datetime, itertools, json, os, sys",
        "    index = int(os.environ['VC_TASK_INDEX'])",
    ]
    if has_table:
        lines += [
            f"    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), '{TABLE}')) as table:",
            "        line = next(itertools.islice(table, index, None))",
        ]
    lines += [
        f"    shard = datetime.date.fromisoformat({shard})" if by_day else f"    shard = {shard}",
        "    result = json.dumps(function(shard))",
        f"    if len(result.encode()) > {MOST_RESULT}:",
        f"        sys.exit('the result has more than {MOST_RESULT} bytes of JSON; '",
        "                 'write it to storage and return where it is')",
        "    with open(os.environ['VC_RESULT'], 'w') as file:",
        "        file.write(result)",
        "if __name__ == '__main__':",
        f"    {_MAIN}({function.__name__})",
    ]
    return "\n".join(lines) + "\n"


def _definitions(function: Callable[[Any], Any], known: dict[str, object]) -> list[str]:
    """Return the source of a function, after that of what it names; `known` are the names that are defined so far."""
    name = getattr(function, "__name__", repr(function))
    if not isinstance(function, FunctionType) or name == "<lambda>":
        raise InvalidJob(f"map({name}): only functions made with def can be sent; write one, or give a command")
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        raise InvalidJob(f"map({name}): it must return its result, not await or yield; call asyncio.run inside it")
    if function.__code__.co_freevars:
        variables = ", ".join(function.__code__.co_freevars)
        raise InvalidJob(f"map({name}): it uses {variables} of the function around it; pass such values as rows")
    try:
        source = textwrap.dedent(inspect.getsource(function))
        tree = ast.parse(source).body[0]
    except (OSError, SyntaxError):
        raise InvalidJob(f"map({name}): its source cannot be read; define it in a file or a notebook cell") from None
    assert isinstance(tree, ast.FunctionDef)
    if tree.decorator_list:
        raise InvalidJob(
            f"map({name}): it has a decorator, which the pod does not have; call it inside a plain function"
        )
    known[name] = function
    lines: list[str] = []
    defaults = [*tree.args.defaults, *filter(None, tree.args.kw_defaults)]
    named = {node.id for default in defaults for node in ast.walk(default) if isinstance(node, ast.Name)}
    for used in sorted(named | set(_global_names(function.__code__))):
        if used in function.__globals__ and used not in known:
            lines += _definition(function, used, function.__globals__[used], known)
    return [*lines, *source.splitlines()]


def _definition(function: FunctionType, name: str, value: object, known: dict[str, object]) -> list[str]:
    """Return lines that define one global name that a function uses."""
    if isinstance(value, ModuleType):
        known[name] = value
        return [f"import {value.__name__} as {name}"]
    module = getattr(value, "__module__", None)
    if isinstance(value, FunctionType) and module == function.__module__:
        return _definitions(value, known)
    if isinstance(value, FunctionType | type) and module not in (function.__module__, "__main__"):
        known[name] = value
        return [f"from {module} import {value.__qualname__} as {name}"]
    try:
        same = ast.literal_eval(repr(value)) == value
    except (ValueError, SyntaxError):
        same = False
    if not same:
        kind = type(value).__name__ if not isinstance(value, type) else "class"
        raise InvalidJob(
            f'map({function.__name__}): it uses "{name}" ({kind}), which cannot be sent; make it inside the function'
        )
    known[name] = value
    return [f"{name} = {value!r}"]


def _global_names(code: CodeType) -> Iterator[str]:
    """Yield the global names that a function and those inside it read."""
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield str(instruction.argval)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _global_names(constant)


def results_of(pods: Iterable[Pod], count: int) -> tuple[Any, ...]:
    """Return what functions returned, by shard; None for shards that did not succeed. Raises ClientError."""
    results: list[Any] = [None] * count
    for pod in pods:
        index = int(pod.metadata.labels.get(names.TASK_INDEX, pod.metadata.name.rpartition("-")[2]))
        if pod.status.phase != "Succeeded" or index >= count:
            continue
        ends = [each.state.terminated for each in pod.status.container_statuses if each.name == "main"]
        message = ends[0].message if ends and ends[0] is not None else ""
        if not message:
            step = "simulated pods run no functions: use LocalOptions(run=True), or a real cluster"
            raise ClientError(f"pod {pod.metadata.name} succeeded without a result; {step}")
        results[index] = json.loads(message)
    return tuple(results)
