"""Volcano's command-line tools: `vcctl` (`commands`), and `vsub`, `vjobs`, `vqueues`, `vcancel`, `vsuspend`, `vresume`
(`tools`).

What they print on stdout is what Volcano's print, byte for byte, so that scripts continue to work; docs/differences.md
lists the exceptions. What Volcano leaves unsaid, such as that a command changed nothing, goes to stderr. `cobra` prints
help and errors as the library of that name does, with which Volcano's tools are written. The implementations are
`jobs`, `queues` and `flows`, imported when a command runs.
"""

from volcanoio.cli.vcctl.commands import main, vcctl

__all__ = ["main", "vcctl"]
