"""Completion in shells, and `kubectl volcano`.

`volcanoio completion bash|zsh|fish` prints click's script for the shell, which asks the command itself for completions.
kubectl finds the console script `kubectl-volcano` as its plugin, and `kubectl_complete-volcano` for its completions:
these are printed as cobra's command __complete does, one per line with its description, and a directive in the last
line.
Names of jobs, queues and namespaces are read from the cluster that the words before select.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import anyio
import click
from click.shell_completion import CompletionItem, ShellComplete, get_completion_class

SHELLS = ("bash", "zsh", "fish")
_PROGRAM, _VARIABLE = "volcanoio", "_VOLCANOIO_COMPLETE"
PLUGIN = "kubectl volcano"
"""Name of the program as a plugin of kubectl."""
_SECONDS = 3.0
"""Longest time to read names: a slow cluster means no completions."""
_NO_FILES, _FILES = ":4", ":0"
"""Directives of cobra: complete with these words only, or with file names."""
_MOST = 1000
"""Names that are read; more would not help at a prompt."""


def names_of(word: str) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem]]:
    """Return a completion by the names of jobs, queues or namespaces, without those that are on the command line.

    `word` is `job`, `queue` or `namespace`.
    """

    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        value = context.params.get(parameter.name or "") or ()
        given = (value,) if isinstance(value, str) else value
        try:
            found = anyio.run(_names, word, context.params)
        except Exception:  # an error message would break the prompt
            return []
        return [CompletionItem(name) for name in found if name.startswith(incomplete) and name not in given]

    return complete


async def _names(word: str, given: dict[str, Any]) -> list[str]:
    from volcanoio.cli.connection import Target, cluster_of
    from volcanoio.model import kinds

    kind = {"job": kinds.JOB, "queue": kinds.QUEUE, "namespace": kinds.NAMESPACE}[word]
    target = Target(**{name: given[name] for name in Target._fields if given.get(name) is not None})
    with anyio.fail_after(_SECONDS):
        async with cluster_of(target) as cluster:
            namespace = cluster.namespace if kind.namespaced else ""
            found = []
            async for each in cluster.client.scan(kind, namespace, limit=_MOST):
                found.append(each["metadata"]["name"])
                if len(found) == _MOST:
                    break
    return found


@click.command(short_help="Print a script that completes commands in a shell.")
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script that completes volcanoio's commands, options and names of jobs, queues and namespaces in SHELL.

    For this terminal: `source <(volcanoio completion bash)`, also with zsh; `volcanoio completion fish | source`.
    To have it in every terminal, put that line into ~/.bashrc, ~/.zshrc or ~/.config/fish/config.fish.
    """
    script = get_completion_class(shell)
    assert script is not None  # one of SHELLS
    print(script(context.find_root().command, {}, _PROGRAM, _VARIABLE).source())


def print_for_kubectl(root: click.Command, arguments: Sequence[str]) -> None:
    """Print completions of the last argument for kubectl; those before are complete."""
    *words, incomplete = arguments or [""]
    found = ShellComplete(root, {}, PLUGIN, "").get_completions(words, incomplete)
    for item in found:
        if item.type == "plain":
            print(f"{item.value}\t{item.help}" if item.help else item.value)
    print(_FILES if any(item.type != "plain" for item in found) else _NO_FILES)
