"""Write `builtin.json` from the models of the installed kubernetes-asyncio; with `--check`, say whether it is stale.

Run as `python -m volcanoio.localcluster.apiserver.schemas.generate`.
"""

from __future__ import annotations

import argparse
import inspect
import re
import sys
from typing import Any

import msgspec

from volcanoio.localcluster.apiserver.builtins import BUILTINS
from volcanoio.localcluster.apiserver.resources import Resource
from volcanoio.localcluster.apiserver.schemas.table import PATH, schema_name

_SCALARS = {"str": "s", "int": "i", "float": "n", "bool": "b", "datetime": "t", "date": "t", "object": "o"}
_LIST, _MAP = re.compile(r"list\[(.*)\]"), re.compile(r"dict\(str, (.*)\)")
_ALSO = ("V1DeleteOptions", "V1Eviction", "V1Scale")


def generate() -> bytes:
    """The content of `builtin.json`: one schema a line, sorted, so that differences are readable."""
    import kubernetes_asyncio  # noqa: PLC0415 - only the generator needs it, and it is slow to import
    from kubernetes_asyncio.client import models  # noqa: PLC0415

    schemas: dict[str, Any] = {}
    kinds: dict[str, str] = {}
    waiting = list(_ALSO)
    for one in BUILTINS:
        name = _model_of(one, models)
        kinds[f"{one.api_version}/{one.kind}"] = schema_name(name)
        waiting.append(name)
    while waiting:
        name = waiting.pop()
        if schema_name(name) in schemas:
            continue
        schema, used = _schema(getattr(models, name))
        schemas[schema_name(name)] = schema
        waiting += used
    encode = msgspec.json.Encoder(order="deterministic").encode
    lines = [b"%s:%s" % (encode(name), encode(schemas[name])) for name in sorted(schemas)]
    return b'{"generated_from":%s,\n"kinds":%s,\n"schemas":{\n%s\n}}\n' % (
        encode(f"kubernetes-asyncio {kubernetes_asyncio.__version__}"),
        encode(kinds),
        b",\n".join(lines),
    )


def _model_of(one: Resource, models: Any) -> str:
    version = one.version.capitalize()
    group = one.group.partition(".")[0].capitalize() or "Core"
    for name in (f"{version}{one.kind}", f"{group}{version}{one.kind}"):
        if hasattr(models, name):
            return name
    raise LookupError(f"{one.api_version} {one.kind}: kubernetes-asyncio has no model of it")


def _schema(model: Any) -> tuple[dict[str, Any], list[str]]:
    """The compact form of a model, and the models it uses."""
    used: list[str] = []
    fields = {model.attribute_map[name]: _type(text, used) for name, text in model.openapi_types.items()}
    schema: dict[str, Any] = {"fields": fields}
    required = [model.attribute_map[name] for name in model.openapi_types if _is_required(model, name)]
    if required:
        schema["required"] = required
    return schema, used


def _type(text: str, used: list[str]) -> str:
    for pattern, prefix in ((_LIST, "["), (_MAP, "{")):
        match = pattern.fullmatch(text)
        if match:
            return prefix + _type(match[1], used)
    if text in _SCALARS:
        return _SCALARS[text]
    used.append(text)
    return "#" + schema_name(text)


def _is_required(model: Any, name: str) -> bool:
    """A model refuses None for its required fields."""
    blank = model.__new__(model)
    blank.local_vars_configuration = inspect.getmodule(model).Configuration()  # type: ignore[union-attr]  # never None
    try:
        setattr(blank, name, None)
    except ValueError:
        return True
    return False


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; exit with 1 when the file is stale")
    arguments = parser.parse_args()
    content = generate()
    if not arguments.check:
        PATH.write_bytes(content)
        return 0
    if PATH.read_bytes() == content:
        return 0
    print(f"{PATH} is stale: run python -m {__spec__.name}", file=sys.stderr)  # noqa: T201 - it is a command
    return 1


if __name__ == "__main__":
    sys.exit(main())
