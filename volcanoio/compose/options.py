"""What a local cluster is asked to be, checked before anything starts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from volcanoio.model import resources
from volcanoio.model.quantity import QuantityError

DEFAULT_RESOURCES = "cpu=8,memory=32Gi,pods=110"


class OptionError(ValueError):
    """An option that cannot be used; the message names it, the rule and the next step."""


@dataclass(frozen=True, kw_only=True)
class LocalOptions:
    """Options of a local cluster. Times are seconds; `data` None keeps nothing on disk but a temporary kubeconfig.

    `speed` is how many simulated seconds pass in a second for the nodes. `debounce` and `schedule_period` are the
    scheduler's; `kubelet_lag` is by how much nodes see changes late.
    """

    nodes: int = 4
    node_resources: str = DEFAULT_RESOURCES
    data: Path | None = None
    memory: bool = True
    port: int = 0
    speed: float = 1.0
    kubelet_lag: float = 0.0
    scheduler_conf: Path | None = None
    controller_conf: Path | None = None
    plugins_dir: tuple[Path, ...] = ()
    policies_dir: tuple[Path, ...] = ()
    strict_admission: bool = False
    journal: Path | None = None
    debounce: float = 0.005
    schedule_period: float = 1.0
    verbosity: int = 0

    @classmethod
    def parse(cls, **given: Any) -> Self:
        """Options from a command line; raises OptionError."""
        options = cls(**given)
        for part in options.node_resources.split(","):
            name, separator, amount = part.partition("=")
            try:
                if not separator or not name.strip():
                    msg = "no NAME=QUANTITY"
                    raise QuantityError(msg)
                resources.amount_of(name.strip(), amount)
            except QuantityError:
                msg = f'--node-resources: "{part}" is not NAME=QUANTITY; write for instance {DEFAULT_RESOURCES}'
                raise OptionError(msg) from None
        for flag, path in (
            ("--scheduler-conf", options.scheduler_conf),
            ("--controller-conf", options.controller_conf),
        ):
            if path is not None and not path.is_file():
                msg = f"{flag}: there is no file {path}; give the path of a YAML file"
                raise OptionError(msg)
        return options
