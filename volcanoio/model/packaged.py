"""Paths of the configuration shipped with volcanoio: CRDs, examples, scheduler configurations."""

from pathlib import Path

import volcanoio

_PACKAGE = Path(volcanoio.__file__).parent


def config_path(*parts: str) -> Path:
    """Return the path of a file or folder under `config/`: in the installed wheel, else in the checkout.

    `config_path("crds")` is the folder of our CRDs. Raises FileNotFoundError with both paths that were tried.
    """
    candidates = (_PACKAGE / "_data" / "config", _PACKAGE.parent / "config")
    for root in candidates:
        path = root.joinpath(*parts)
        if path.exists():
            return path
    places = " nor in ".join(str(root) for root in candidates)
    msg = f"{'/'.join(parts)} is neither in {places}; reinstall volcanoio or run it from a whole checkout"
    raise FileNotFoundError(msg)
