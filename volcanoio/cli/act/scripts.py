"""Jobs from shell scripts: the script is the command, and its first comments have the options.

`#VIO` lines have options of `volcanoio run`, `#SBATCH` lines a subset of those of Slurm's sbatch, which are translated.
Options end with the first line that is neither empty nor a comment, as in Slurm.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from volcanoio.cli.act.submission import job_of
from volcanoio.cli.terminal import UsageError
from volcanoio.client.shards import Sharded

_ARRAY_INDEX = "SLURM_ARRAY_TASK_ID"
_SAME = {
    "--job-name": "--name", "-J": "--name", "--partition": "--queue", "-p": "--queue", "--ntasks": "--replicas",
    "-n": "--replicas", "--cpus-per-task": "--cpu", "-c": "--cpu", "--array": "--array", "-a": "--array",
}  # fmt: skip
"""Options of sbatch that have one of `run` with the same value."""
_LONG = {"-t": "--time", "-G": "--gpus"}
_MOST_BYTES = 128 * 1024
"""Size of one argument of a process, which the script becomes (Linux: MAX_ARG_STRLEN)."""
_UNITS = {"": "Mi", "K": "Ki", "M": "Mi", "G": "Gi", "T": "Ti"}


def script_job(
    text: str, source: str, options_of: Callable[[Sequence[str]], Mapping[str, Any]], given: Mapping[str, Any]
) -> Sharded:
    """Return the Job of a script; `options_of` parses words as options of `run`, and `given` go before these.

    Raises UsageError.
    """
    if len(text.encode()) >= _MOST_BYTES:
        raise UsageError(
            f"{source}: a script has at most {_MOST_BYTES} bytes; put it into the image, or into a ConfigMap"
        )
    words = [word for line, found in _headers(text, source) for word in _translated(line, found, source)]
    try:
        options = {**options_of(words), **{name: value for name, value in given.items() if value is not None}}
    except UsageError as error:
        raise UsageError(f"{source}: {error}") from None
    if options.get("image") is None:
        raise UsageError(f"{source}: no image; add a line such as #VIO --image busybox, or give --image")
    if options.get("name") is None and source != "stdin":
        options["name"] = re.sub(r"[^a-z0-9]+", "-", Path(source).stem.lower()).strip("-") or None
    shell = shlex.split(text.partition("\n")[0].removeprefix("#!")) or ["/bin/sh"]
    if _ARRAY_INDEX in text:
        first, _, rest = text.partition("\n")
        text = f'{first}\nexport {_ARRAY_INDEX}="${{VC_SHARD:-$VC_TASK_INDEX}}"\n{rest}'
    try:
        return job_of(options, [*shell, "-c", text])
    except UsageError as error:
        raise UsageError(f"{source}: {error}") from None


def _headers(text: str, source: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the mark of each line with options, and its words."""
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip() and not line.startswith("#"):
            return
        mark, _, rest = line.partition(" ")
        if mark in ("#VIO", "#SBATCH"):
            try:
                yield mark, shlex.split(rest, comments=True)
            except ValueError as error:
                raise UsageError(f"{source}, line {number}: {str(error).lower()}; close the quotes") from None


def _translated(mark: str, words: Sequence[str], source: str) -> Iterator[str]:
    """Yield options of `run`; those of sbatch that have no counterpart are noted on stderr."""
    if mark == "#VIO":
        yield from words
        return
    rest = list(words)
    while rest:
        name, equals, value = rest.pop(0).partition("=")
        if not equals and not name.startswith("--") and len(name) > 2:
            name, value = name[:2], name[2:]
        elif not equals and rest and not rest[0].startswith("-"):
            value = rest.pop(0)
        name = _LONG.get(name, name)
        if name in _SAME:
            yield from (_SAME[name], value)
        elif (found := _converted(name, value, source)) is not None:
            yield from found
        else:
            print(f"note: {source}: #SBATCH {name} has no counterpart here and is left out", file=sys.stderr)


def _converted(name: str, value: str, source: str) -> Sequence[str] | None:
    if name == "--mem":
        if (match := re.fullmatch(r"(\d+)([KMGT]?)B?", value, re.IGNORECASE)) is None:
            raise UsageError(f'{source}: #SBATCH --mem: "{value}" is not a size; write for instance 4G')
        return ("--memory", match[1] + _UNITS[match[2].upper()])
    if name == "--gpus" or (name == "--gres" and value.startswith("gpu")):
        count = value.rpartition(":")[2]
        return ("--gpu", count if count.isdigit() else "1")
    if name == "--time":
        return ("--running-estimate", _duration(value, source))
    if name == "--export":
        return [word for part in value.split(",") if "=" in part for word in ("--env", part)]
    return None


def _duration(text: str, source: str) -> str:
    """Return a time of Slurm (minutes, MM:SS, HH:MM:SS, D-HH, D-HH:MM, D-HH:MM:SS) as a Go duration."""
    days, dash, rest = text.rpartition("-")
    parts = rest.split(":")
    if not all(part.isdigit() for part in (*parts, *([days] if dash else []))) or len(parts) > 3:
        raise UsageError(f'{source}: #SBATCH --time: "{text}" is not a time; write for instance 02:30:00')
    numbers = [int(part) for part in parts]
    if dash:
        hours, minutes, seconds = [*numbers, 0, 0][:3]
    elif len(numbers) == 3:
        hours, minutes, seconds = numbers
    else:
        hours, (minutes, seconds) = 0, [*numbers, 0][:2]
    return f"{int(days or 0) * 24 + hours}h{minutes}m{seconds}s"
