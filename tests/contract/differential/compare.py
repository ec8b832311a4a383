"""`python -m tests.contract.differential.compare REAL-KUBECONFIG [--seeds 0:100] [--length 60]`: where servers differ.

Sends random scripts to the embedded server and to the real one, and prints each answer that differs.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from tests.contract.differential.kind import Kind
from tests.contract.differential.running import Run
from tests.contract.differential.scripts import Step, kinds_of, script
from tests.contract.differential.volcano import with_volcano
from tests.contract.embedded import embedded_server
from tests.contract.support import Cluster, Namespace, unique, wait_until_stable
from tests.contract.widgets import with_widgets

_PARSERS = (
    re.compile(r"invalid continue token: continue key is not valid"),
    re.compile(r"error decoding patch: |json: cannot unmarshal array into Go value of type map"),
    re.compile(r'\w+ in version "\w+" cannot be handled as an? \w+: '),
    re.compile(r"unable to parse requirement: |found '.*', expected: "),
    re.compile(
        r"(the object provided is unrecognized \(must be of type \w+\): )?couldn't get version/kind; json parse error: "
    ),
    re.compile(r"JSON is malformed: |Input data was truncated|invalid character |unexpected end of JSON input"),
    re.compile(r"the server rejected our request due to an error in our request"),
    re.compile(r'Operation cannot be fulfilled on \S+ "\S+": .*Precondition failed: UID in precondition'),
    re.compile(r'( "" is invalid: patch: )?Invalid value: "(\{|map\[)'),
)
"""Messages that go on with the words of a parser, which every implementation has of its own."""


def alike(mine: Any, theirs: Any) -> bool:
    """Whether two leaves say the same.

    Of two texts one may go on where the other ends: ours with the next step, theirs with a dump of Go structs.
    """
    if not isinstance(mine, str) or not isinstance(theirs, str):
        return bool(mine == theirs)
    if any(one.match(mine) and one.match(theirs) for one in _PARSERS):
        return True
    shorter, longer = sorted((mine, theirs), key=len)
    return bool(shorter) and longer.startswith(shorter.rstrip("]"))


class Difference(NamedTuple):
    """One request that was answered differently."""

    seed: int
    number: int
    step: Step
    embedded: dict[str, Any]
    real: dict[str, Any]

    def __str__(self) -> str:
        lines = [f"seed {self.seed}, step {self.number}: {self.step}"]
        lines += [
            f"  {path}: embedded {mine!r}, real {theirs!r}" for path, mine, theirs in parts(self.embedded, self.real)
        ]
        return "\n".join(lines)


def parts(mine: Any, theirs: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield the leaves in which two responses differ."""
    if mine == theirs or alike(mine, theirs):
        return
    if isinstance(mine, dict) and isinstance(theirs, dict):
        for key in sorted(mine.keys() | theirs.keys()):
            yield from parts(mine.get(key), theirs.get(key), f"{path}.{key}")
    elif isinstance(mine, list) and isinstance(theirs, list) and len(mine) == len(theirs):
        for at, (one, other) in enumerate(zip(mine, theirs, strict=True)):
            yield from parts(one, other, f"{path}[{at}]")
    else:
        yield path, mine, theirs


def differences(seed: int, length: int, embedded: Cluster, real: Cluster) -> Iterator[Difference]:
    """Carry a script out on both; yields what was answered differently, until states have drifted apart."""
    runs = [Run(_namespace(cluster)) for cluster in (embedded, real)]
    kinds = kinds_of(seed)
    try:
        yield from _compared(seed, length, kinds, runs)
    finally:
        for run in runs:
            run.clear(kind.plural for kind in kinds)


def _compared(seed: int, length: int, kinds: list[Kind], runs: list[Run]) -> Iterator[Difference]:
    watched = [kind.plural for kind in kinds if not kind.cluster and not kind.shared]
    began = [run.version("configmaps") for run in runs]
    for number, step in enumerate(script(seed, length)):
        mine, theirs = (run.carry_out(step) for run in runs)
        if any(parts(mine, theirs)):
            yield Difference(seed, number, step, mine, theirs)
            if mine["code"] // 100 != theirs["code"] // 100:
                return
    for plural in watched:
        mine, theirs = (run.watched(plural, since) for run, since in zip(runs, began, strict=True))
        if any(parts(mine, theirs)):
            yield Difference(seed, length, Step("WATCH", (plural, "", "")), mine, theirs)


def _namespace(cluster: Cluster) -> Namespace:
    name = unique("differential")
    cluster.create("/api/v1/namespaces", {"metadata": {"name": name}}).ok()
    wait_until_stable(cluster, name)
    return Namespace(cluster, name)


def main() -> int:
    """Compare; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.contract.differential.compare", description=__doc__)
    parser.add_argument("kubeconfig", type=Path)
    parser.add_argument("--seeds", default="0:20")
    parser.add_argument("--length", type=int, default=60)
    parser.add_argument("--record", type=Path, help="write what was compared, and how many answers differed, here")
    given = parser.parse_args()
    first, last = map(int, given.seeds.split(":"))
    real, found = Cluster.of(given.kubeconfig), 0
    with tempfile.TemporaryDirectory() as directory, embedded_server(Path(directory)) as kubeconfig:
        embedded = with_widgets(Cluster.of(kubeconfig))
        with_widgets(real)
        with_volcano(embedded)
        with_volcano(real)
        for seed in range(first, last):
            for one in differences(seed, given.length, embedded, real):
                print(one, flush=True)
                found += 1
        embedded.close()
    version = real.get("/version").ok()["gitVersion"]
    real.close()
    if given.record is not None:
        said = {
            "date": datetime.now(UTC).date().isoformat(),
            "kubernetes": version,
            "seeds": given.seeds,
            "length": given.length,
        }
        counted = {"scripts": last - first, "requests": (last - first) * given.length, "differences": found}
        given.record.write_text(json.dumps(said | counted, indent=2) + "\n")
    print(json.dumps({"scripts": last - first, "length": given.length, "differences": found}))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
