"""Random structural schemas with values that may or may not fit, from a seed: what two servers are compared by."""

from __future__ import annotations

from random import Random
from typing import Any

_TEXTS = ("", "a", "ab", "abc", "10", "x y", "2020-01-02", "10.0.0.1", "é")
_NAMES = ("a", "b", "c")


class Schemas:
    """Makes schemas and values of one seed."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def schema(self, depth: int = 3) -> dict[str, Any]:
        """A schema of some depth."""
        kinds = ["string", "integer", "number", "boolean", "either"]
        kinds += ["object", "map", "array", "list map", "free"] * 2 if depth else []
        schema: dict[str, Any] = getattr(self, f"_{self._random.choice(kinds).replace(' ', '_')}")(depth)
        if self._maybe(0.15) and "x-kubernetes-int-or-string" not in schema:
            schema["nullable"] = True
        if self._maybe(0.15) and schema.get("type") in {"string", "integer", "boolean"}:
            schema["default"] = self._fitting(schema)
        return schema

    def value(self, schema: dict[str, Any]) -> Any:
        """A value that mostly has the schema's type, and now and then anything."""
        if self._maybe(0.08):
            return self._anything(2)
        match schema.get("type"):
            case "object":
                return self._fields(schema)
            case "array":
                return [self.value(schema["items"]) for _ in range(self._random.randint(0, 3))]
            case "string":
                return self._random.choice([*_TEXTS, *[one for one in schema.get("enum", ()) if isinstance(one, str)]])
            case "integer":
                return self._random.choice([-1, 0, 1, 2, 3, 10, 2**31, 1.0])
            case "number":
                return self._random.choice([-1.5, 0, 1, 2.5, 3, 10.25])
            case "boolean":
                return self._maybe(0.5)
        return self._anything(2)

    def _maybe(self, chance: float) -> bool:
        return self._random.random() < chance

    def _fields(self, schema: dict[str, Any]) -> dict[str, Any]:
        found = {}
        for name, sub in schema.get("properties", {}).items():
            if self._maybe(0.7):
                found[name] = self.value(sub)
        others = schema.get("additionalProperties")
        if isinstance(others, dict):
            found |= {name: self.value(others) for name in _NAMES if self._maybe(0.5)}
        if self._maybe(0.15):
            found["unknown"] = self._anything(1)
        return found

    def _anything(self, depth: int) -> Any:
        kinds = ["null", "bool", "int", "float", "text"] + (["list", "dict"] if depth else [])
        match self._random.choice(kinds):
            case "bool":
                return self._maybe(0.5)
            case "int":
                return self._random.randint(-3, 20)
            case "float":
                return self._random.choice([0.5, 1.0, 1.5, -2.25])
            case "text":
                return self._random.choice(_TEXTS)
            case "list":
                return [self._anything(depth - 1) for _ in range(self._random.randint(0, 2))]
            case "dict":
                return {name: self._anything(depth - 1) for name in _NAMES if self._maybe(0.5)}
        return None

    def _fitting(self, schema: dict[str, Any]) -> Any:
        """A value that the schema accepts, as a default has to be."""
        if "enum" in schema:
            return schema["enum"][0]
        if schema["type"] == "boolean":
            return True
        if schema["type"] == "integer":
            low = schema.get("minimum", 0)
            return low + bool(schema.get("exclusiveMinimum")) + -low % schema.get("multipleOf", 1)
        for one in ("abc", "ab", "10"):
            if schema.get("minLength", 0) <= len(one) <= schema.get("maxLength", 9) and "pattern" not in schema:
                return one
        return "b"

    def _string(self, _: int) -> dict[str, Any]:
        schema: dict[str, Any] = {"type": "string"}
        match self._random.choice(["", "enum", "length", "pattern", "format", "any"]):
            case "enum":
                schema["enum"] = ["a", "abc"]
            case "length":
                schema |= {"minLength": self._random.randint(0, 2), "maxLength": self._random.randint(2, 4)}
            case "pattern":
                schema["pattern"] = self._random.choice(["^[a-z]*$", r"\d+", "^(a|b)", "b$"])
            case "format":
                schema["format"] = self._random.choice(["date", "ipv4", "byte", "hostname", "uri", "duration"])
            case "any":
                word = self._random.choice(["anyOf", "oneOf", "allOf"])
                schema[word] = [{"minLength": 2}, {"pattern": "^a"}]
                schema |= {"not": {"enum": ["ab"]}} if self._maybe(0.3) else {}
        if "format" in schema or "pattern" in schema or "anyOf" in schema:
            schema["nullable"] = self._maybe(0.2)
        return schema

    def _integer(self, _: int) -> dict[str, Any]:
        schema: dict[str, Any] = {"type": "integer"}
        if self._maybe(0.4):
            schema |= {"minimum": self._random.randint(-1, 2), "exclusiveMinimum": self._maybe(0.5)}
        if self._maybe(0.3):
            schema |= {"maximum": 100, "exclusiveMaximum": self._maybe(0.5)}
        if self._maybe(0.2):
            schema["multipleOf"] = self._random.randint(1, 3)
        if self._maybe(0.2):
            schema["format"] = self._random.choice(["int32", "int64"])
        return schema

    def _number(self, _: int) -> dict[str, Any]:
        schema: dict[str, Any] = {"type": "number"}
        if self._maybe(0.4):
            schema |= {"minimum": 0.5, "maximum": 10}
        if self._maybe(0.2):
            schema["multipleOf"] = 0.5
        return schema

    def _boolean(self, _: int) -> dict[str, Any]:
        return {"type": "boolean"}

    def _either(self, _: int) -> dict[str, Any]:
        schema: dict[str, Any] = {"x-kubernetes-int-or-string": True}
        if self._maybe(0.5):
            schema["anyOf"] = [{"type": "integer"}, {"type": "string"}]
        if self._maybe(0.3):
            schema["pattern"] = r"^\d+$"
        return schema

    def _free(self, _: int) -> dict[str, Any]:
        schema: dict[str, Any] = {"x-kubernetes-preserve-unknown-fields": True}
        return schema | ({"type": "object"} if self._maybe(0.7) else {})

    def _object(self, depth: int) -> dict[str, Any]:
        names = [name for name in _NAMES if self._maybe(0.7)] or ["a"]
        schema: dict[str, Any] = {"type": "object", "properties": {name: self.schema(depth - 1) for name in names}}
        if self._maybe(0.3):
            schema["required"] = [self._random.choice(names)]
        if self._maybe(0.15):
            schema["x-kubernetes-preserve-unknown-fields"] = True
        if self._maybe(0.15):
            schema["maxProperties"] = 2
        if self._maybe(0.2):
            schema[self._random.choice(["anyOf", "oneOf"])] = [{"required": [name]} for name in names]
        return schema

    def _map(self, depth: int) -> dict[str, Any]:
        schema: dict[str, Any] = {"type": "object", "additionalProperties": self.schema(depth - 1)}
        if self._maybe(0.2):
            schema["minProperties"] = 1
        return schema

    def _array(self, depth: int) -> dict[str, Any]:
        schema: dict[str, Any] = {"type": "array", "items": self.schema(depth - 1)}
        if self._maybe(0.3):
            schema |= {"minItems": self._random.randint(0, 1), "maxItems": self._random.randint(1, 3)}
        scalar = schema["items"].get("type") in {"string", "integer", "boolean"} and not schema["items"].get("nullable")
        if scalar and self._maybe(0.4):
            schema["x-kubernetes-list-type"] = "set"
        return schema

    def _list_map(self, depth: int) -> dict[str, Any]:
        item: dict[str, Any] = {"type": "object", "properties": {"k": {"type": "string"}, "v": self.schema(depth - 1)}}
        item["required"] = ["k"]
        keys = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}
        return {"type": "array", "items": item, **keys}
