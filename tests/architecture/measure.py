"""Measures of the source's structure; `python -m tests.architecture.measure` prints them as JSON.

All but the first are read from the syntax trees of the product's packages. Imports below `if TYPE_CHECKING:` and inside
functions count as imports: who reads a module has to know them, whether Python runs them or not.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
DEFAULT = ROOT / "config/scheduler/volcano-scheduler.conf"
SOURCES = (ROOT, ROOT / "plugins", ROOT / "policies")
PACKAGES = ("volcanoio", "volcanoio_plugins", "volcanoio_policies")
POINTER = re.compile(r"As `[\w.]+`\.")
"""A docstring that only points to another one."""
CLUSTER = """
{apiVersion: v1, kind: Node, metadata: {name: n0}, status: {allocatable: {cpu: "4", memory: 8Gi, pods: "110"}}}
---
{apiVersion: v1, kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: "4", memory: 8Gi, pods: "110"}}}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: gang, namespace: default}
spec: {minMember: 2, queue: default}
status: {phase: Inqueue}
---
apiVersion: v1
kind: Pod
metadata: {name: p0, namespace: default, annotations: {scheduling.k8s.io/group-name: gang}}
spec: {schedulerName: volcano, containers: [{name: c, resources: {requests: {cpu: "1"}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: p1, namespace: default, annotations: {scheduling.k8s.io/group-name: gang}}
spec: {schedulerName: volcano, containers: [{name: c, resources: {requests: {cpu: "1"}}}]}
---
{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: default}, status: {state: Open}}
"""
"""The cluster of the measured cycle."""


@dataclass(frozen=True)
class Module:
    """A module's dotted name, its file, whether it is a package, and its syntax tree."""

    name: str
    path: Path
    is_package: bool
    tree: ast.Module


def files() -> Iterator[tuple[Path, Path]]:
    """Yield the product's files in their order, each with the directory that it is imported from."""
    for source, package in zip(SOURCES, PACKAGES, strict=True):
        for path in sorted((source / package).rglob("*.py")):
            yield source, path


@cache
def product() -> dict[str, Module]:
    """Return the product's modules by dotted name."""
    found: dict[str, Module] = {}
    for source, path in files():
        parts = path.relative_to(source).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if is_package else parts)
        found[name] = Module(name, path, is_package, ast.parse(path.read_text()))
    return found


def imported(module: Module, names: dict[str, Module]) -> set[str]:
    """Return the product's modules that a module imports; a package for names its `__init__` defines."""
    found = set()
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found.add(inner if inner in names else node.module)
    return (found & names.keys()) - {module.name}


@cache
def imports() -> dict[str, set[str]]:
    """Return what each module of the product imports."""
    names = product()
    return {name: imported(module, names) for name, module in names.items()}


def cycles() -> list[list[str]]:
    """Return the groups of modules that import one another, largest first (Tarjan's strongly connected components)."""
    graph = imports()
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in sorted(graph[name]):
            if other not in index:
                visit(other)
            if other in stack:
                low[name] = min(low[name], low[other])
        if low[name] == index[name]:
            group = stack[stack.index(name) :]
            del stack[stack.index(name) :]
            if len(group) > 1:
                found.append(sorted(group))

    before = sys.getrecursionlimit()
    sys.setrecursionlimit(10_000)
    try:
        for name in graph:
            if name not in index:
                visit(name)
    finally:
        sys.setrecursionlimit(before)
    return sorted(found, key=lambda group: (-len(group), group))


def package_sizes() -> Counter[str]:
    """Return how many modules are directly in each package, its `__init__` included."""
    sizes: Counter[str] = Counter()
    for module in product().values():
        sizes[module.name if module.is_package else module.name.rpartition(".")[0]] += 1
    return sizes


def single_importers() -> list[str]:
    """Return the modules that exactly one other module of the product imports, packages left out."""
    importers: defaultdict[str, set[str]] = defaultdict(set)
    for name, others in imports().items():
        for other in others:
            importers[other].add(name)
    return sorted(name for name, module in product().items() if not module.is_package and len(importers[name]) == 1)


def pointer_docstrings() -> list[str]:
    """Return `file:line` of each definition whose docstring only names another definition."""
    found = []
    for module in product().values():
        for node in ast.walk(module.tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                text = ast.get_docstring(node)
                if text is not None and POINTER.fullmatch(text):
                    found.append(f"{module.path.relative_to(ROOT)}:{node.lineno}")
    return found


def long_functions() -> list[str]:
    """Return `file:line name` of each function of more than 50 lines."""
    return [
        f"{module.path.relative_to(ROOT)}:{node.lineno} {node.name}"
        for module in product().values()
        for node in ast.walk(module.tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and node.end_lineno is not None
        and node.end_lineno - node.lineno >= 50
    ]


def lines(*, localcluster: bool) -> int:
    """Return the lines of the product's modules, those of the local cluster or all others."""
    return sum(
        len(module.path.read_text().splitlines())
        for name, module in product().items()
        if name.startswith("volcanoio.localcluster") is localcluster
    )


@dataclass(frozen=True)
class Calls:
    """What one scheduling cycle enters: distinct product files, and calls from one file into another."""

    files: int
    switches: int


def one_cycle() -> Calls:
    """Count the files that one cycle enters: a gang of two pods on two nodes, with the default configuration.

    It is the first cycle, hence it also sets up the plugins. Loading the objects before, what `Offline` keeps of the
    session, and what binds and patches change in the cluster after, is not counted.
    """
    from volcanoio.engine.scheduling.cluster.state import ClusterState
    from volcanoio.engine.scheduling.offline.offline import Offline
    from volcanoio.plugincheck.clusters import START, decoded
    from volcanoio.runtime.loading.registry import discover
    from volcanoio.runtime.scheduler.setup import PluginCatalog, Setup

    world = Offline(ClusterState(), Setup.make(DEFAULT.read_text(), PluginCatalog.of(discover())).profile, now=START)
    world.load(decoded(manifest) for manifest in yaml.safe_load_all(CLUSTER))
    world.inspect = lambda session: None  # type: ignore[method-assign]
    calls = _count(world.cycle)
    if len(world.requests) != 2:
        msg = f"the measured cycle was to bind the gang's two pods, not {len(world.requests)}"
        raise AssertionError(msg)
    return calls


def _count(run: Callable[[], object]) -> Calls:
    entered: set[str] = set()
    switches = 0
    product_files = {str(path) for _, path in files()}

    def on_event(frame: object, event: str, _argument: object) -> None:
        nonlocal switches
        if event != "call":
            return
        code = frame.f_code  # type: ignore[attr-defined]
        if code.co_filename in product_files:
            entered.add(code.co_filename)
            caller = frame.f_back  # type: ignore[attr-defined]
            switches += caller is None or caller.f_code.co_filename != code.co_filename

    sys.setprofile(on_event)
    try:
        run()
    finally:
        sys.setprofile(None)
    return Calls(len(entered), switches)


def measures() -> dict[str, object]:
    """Return all measures."""
    calls, loops, sizes = one_cycle(), cycles(), package_sizes()
    return {
        "files entered by one cycle": calls.files,
        "calls that switch file": calls.switches,
        "import cycles": [len(group) for group in loops],
        "modules": sum(not module.is_package for module in product().values()),
        "largest packages": dict(sizes.most_common(5)),
        "modules with one importer": len(single_importers()),
        "docstrings that only point elsewhere": len(pointer_docstrings()),
        "functions of more than 50 lines": len(long_functions()),
        "lines outside localcluster": lines(localcluster=False),
        "lines of localcluster": lines(localcluster=True),
    }


if __name__ == "__main__":
    print(json.dumps(asdict(one_cycle()) if sys.argv[1:] == ["cycle"] else measures(), indent=2))
