"""CEL rules of definitions: what compiles, what holds, and what is said when a rule does not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.contract.schemas.definitions import CRDS, definition, faults, served, with_spec
from tests.contract.support import Answer, Cluster, Obj, unique

GROUP = "rules.volcanoio.dev"
RULE = "spec.validation.openAPIV3Schema.properties[spec].properties[a].x-kubernetes-validations[0]"


def ruled(field: Obj, **rule: Any) -> Obj:
    """A schema whose field `a` has a rule."""
    return with_spec({"a": {**field, "x-kubernetes-validations": [rule]}})


TEXT: Obj = {"type": "string", "maxLength": 50}
PAIR: Obj = {"type": "object", "properties": {"x-y": {"type": "integer"}, "name": TEXT}}


@pytest.mark.parametrize(
    ("field", "rule", "said"),
    [
        (TEXT, "self == 1", "1:6: found no matching overload for '_==_' applied to '(string, int)'"),
        (TEXT, "self.foo == 1", "1:5: type 'string' does not support field selection"),
        (PAIR, "self.nope == 1", "1:5: undefined field 'nope'"),
        (PAIR, "self.x-y == 1", "1:5: undefined field 'x'"),
        (TEXT, "foo(self)", "1:4: undeclared reference to 'foo' (in container '')"),
        (TEXT, "self.all(x, y)", "1:13: undeclared reference to 'y' (in container '')"),
        (TEXT, "has(self)", "1:5: invalid argument to has() macro"),
        (TEXT, "self.matches('(')", "1:14: invalid matches argument"),
        (TEXT, "duration('x') > duration('1s')", "1:10: invalid duration argument"),
        (TEXT, "[1, 'a'].size() > 1", "1:5: expected type 'int' but found 'string'"),
        (TEXT, "self == 'a'", ""),
        (PAIR, "self.x__dash__y == 1 && self.name.startsWith('a')", ""),
        (TEXT, "isURL(self) || quantity(self).isGreaterThan(quantity('1'))", ""),
        (TEXT, "self.split(',').all(x, x.size() < 5) && !ip.isCanonical('10.0.0.1')", ""),
    ],
)
def test_rules_compile_against_the_schema(cluster: Cluster, field: Obj, rule: str, said: str) -> None:
    answer = cluster.create(CRDS, definition("cogs", ruled(field, rule=rule), group=GROUP), dryRun="All")
    if not said:
        answer.ok()
        return
    answer.refused(422, "Invalid")
    messages = [message for where, _, message in faults(answer) if where == f"{RULE}.rule"]
    assert any("compilation failed: " in one and f"ERROR: <input>:{said}" in one for one in messages), messages


@pytest.mark.parametrize(
    ("rule", "field", "message"),
    [
        ({"rule": ""}, f"{RULE}.rule", "Required value: rule is not specified"),
        ({"rule": "self.size() + 1"}, f"{RULE}.rule", "cel expression must evaluate to a bool"),
        ({"rule": "true", "message": "a\nb"}, f"{RULE}.message", "must not contain line breaks"),
        ({"rule": "self ==\n'a'"}, f"{RULE}.message", "message must be specified if rule contains line breaks"),
        ({"rule": "true", "reason": "Foo"}, f"{RULE}.reason", 'Unsupported value: "Foo"'),
        ({"rule": "true", "fieldPath": ".b"}, f"{RULE}.fieldPath", "must be a valid path"),
        ({"rule": "true", "messageExpression": "1"}, f"{RULE}.messageExpression", "must evaluate to a string"),
        ({"rule": "true", "optionalOldSelf": True}, f"{RULE}.optionalOldSelf", "may not be set if oldSelf is not used"),
    ],
)
def test_supported_rules(cluster: Cluster, rule: Obj, field: str, message: str) -> None:
    answer = cluster.create(CRDS, definition("cogs", ruled(TEXT, **rule), group=GROUP), dryRun="All")
    answer.refused(422, "Invalid")
    assert any(where == field and message in what for where, _, what in faults(answer)), faults(answer)


def test_old_values_need_a_counterpart(cluster: Cluster) -> None:
    item = {**TEXT, "x-kubernetes-validations": [{"rule": "self == oldSelf"}]}
    schema = with_spec({"a": {"type": "array", "maxItems": 3, "items": item}})
    answer = cluster.create(CRDS, definition("cogs", schema, group=GROUP), dryRun="All")
    answer.refused(422, "Invalid")
    assert any("oldSelf cannot be used on the uncorrelatable portion" in what for _, _, what in faults(answer))


DATA: Obj = {
    "type": "object",
    "properties": {
        "i": {"type": "integer"},
        "d": {"type": "number"},
        "s": TEXT,
        "l": {"type": "array", "maxItems": 5, "items": {"type": "integer"}},
        "m": {"type": "object", "maxProperties": 5, "additionalProperties": TEXT},
        "set": {"type": "array", "maxItems": 5, "x-kubernetes-list-type": "set", "items": TEXT},
        "either": {"x-kubernetes-int-or-string": True, "maxLength": 10},
        "at": {"type": "string", "format": "date-time"},
        "for": {"type": "string", "format": "duration"},
        "null": {"type": "string", "nullable": True, "maxLength": 5},
    },
}
VALUE: Obj = {
    "i": 7,
    "d": 2,
    "s": "hello",
    "l": [3, 1, 2],
    "m": {"k": "v"},
    "set": ["a", "b"],
    "either": 5,
    "at": "2020-02-29T12:34:56Z",
    "for": "90m",
    "null": None,
}
HOLD = (
    "self.i / 2 == 3 && self.i % 4 == 3 && -self.i == -7",
    "self.d / 4.0 == 0.5",  # a whole number in the JSON is a double by its schema
    "self.s.substring(1, 3) == 'el' && self.s.matches('^h.*o$') && self.s.find('l+') == 'll'",
    "self.l.all(x, x > 0) && self.l.exists_one(x, x == 3) && self.l.filter(x, x > 1).size() == 2",
    "self.l.map(x, x * 2).sum() == 12 && self.l.sort() == [1, 2, 3] && self.l.max() == 3",
    "self.m.k == 'v' && 'k' in self.m && self.m.all(k, v, k + v == 'kv')",
    "self.set == ['b', 'a']",
    "type(self.either) == int && self.either > 4",
    "self.at.getFullYear() == 2020 && self.at + self.__for__ == timestamp('2020-02-29T14:04:56Z')",
    "!has(self.__null__) && !has(self.m.nope) && has(self.m.k)",
    "self.?m.?nope.orValue('x') == 'x' && self.m[?'k'].hasValue()",
    "1 / 0 == 1 || true",
    "quantity('1.5Gi').compareTo(quantity('1536Mi')) == 0",
    "cidr('10.0.0.0/8').containsIP('10.1.2.3') && ip('::1').isLoopback()",
    "url('https://a.b:80/x').getPort() == '80'",
    "'%s-%d'.format([self.s, self.i]) == 'hello-7'",
    "semver('1.2.3').isLessThan(semver('1.10.0')) && !format.dns1123Label().validate('a-b').hasValue()",
    "{'a': 1}.transformMap(k, v, v + 1) == {'a': 2}",
)
FAIL = (
    ("self.i > 10", "FieldValueInvalid", "Invalid value: failed rule: self.i > 10"),
    (
        "self.l[9] == 1",
        "FieldValueInvalid",
        'Invalid value: "object": index out of bounds: 9 evaluating rule: self.l[9] == 1',
    ),
    (
        "self.m.nope == 'x'",
        "FieldValueInvalid",
        "Invalid value: \"object\": no such key: nope evaluating rule: self.m.nope == 'x'",
    ),
    (
        "self.i / 0 == 1",
        "FieldValueInvalid",
        'Invalid value: "object": division by zero evaluating rule: self.i / 0 == 1',
    ),
    (
        "self.either.size() == 1",
        "FieldValueInvalid",
        (
            "Invalid value: \"object\": 'no such overload: size': call arguments did not match a supported operator, "
            "function or macro signature for rule: self.either.size() == 1"
        ),
    ),
)


@pytest.fixture(scope="module")
def evaluated(cluster: Cluster) -> Iterator[str]:
    """The path of objects with one field a rule."""
    rules = [*HOLD, *(rule for rule, _, _ in FAIL)]
    fields = {f"f{at}": {**DATA, "x-kubernetes-validations": [{"rule": rule}]} for at, rule in enumerate(rules)}
    with served(cluster, definition("cogs", with_spec(fields), group=f"{unique('rules')}.volcanoio.dev")) as path:
        yield path


def _object(path: str, **spec: Any) -> Obj:
    return {"apiVersion": f"{path.split('/')[2]}/v1", "kind": "Cog", "metadata": {"name": "c"}, "spec": spec}


@pytest.mark.parametrize("at", range(len(HOLD)), ids=HOLD)
def test_rules_that_hold(cluster: Cluster, evaluated: str, at: int) -> None:
    cluster.create(evaluated, _object(evaluated, **{f"f{at}": VALUE}), dryRun="All").ok()


@pytest.mark.parametrize("at", range(len(FAIL)), ids=[rule for rule, _, _ in FAIL])
def test_rules_that_do_not(cluster: Cluster, evaluated: str, at: int) -> None:
    field = f"f{len(HOLD) + at}"
    answer = cluster.create(evaluated, _object(evaluated, **{field: VALUE}), dryRun="All")
    answer.refused(422, "Invalid")
    assert faults(answer) == {(f"spec.{field}", *FAIL[at][1:])}


def test_rules_wait_until_the_object_is_valid(cluster: Cluster, evaluated: str) -> None:
    answer = cluster.create(evaluated, _object(evaluated, f0={**VALUE, "i": "x"}), dryRun="All")
    answer.refused(422, "Invalid")
    assert any(
        "some validation rules were not checked" in what for where, _, what in faults(answer) if where == "<nil>"
    )


@pytest.fixture(scope="module")
def changing(cluster: Cluster) -> Iterator[str]:
    """The path of objects whose rules are about changes and their messages."""
    fields: Obj = {
        "fixed": {**TEXT, "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "is immutable"}]},
        "grows": {
            "type": "integer",
            "x-kubernetes-validations": [
                {"rule": "!oldSelf.hasValue() || self >= oldSelf.value()", "optionalOldSelf": True}
            ],
        },
        "limits": {
            "type": "object",
            "properties": {"low": {"type": "integer"}, "high": {"type": "integer"}},
            "x-kubernetes-validations": [
                {
                    "rule": "self.low <= self.high",
                    "messageExpression": "self.low > 4 ? 'far too low' : 'too low'",
                    "reason": "FieldValueForbidden",
                    "fieldPath": ".low",
                }
            ],
        },
    }
    with served(cluster, definition("cogs", with_spec(fields), group=f"{unique('change')}.volcanoio.dev")) as path:
        yield path


def test_rules_about_changes(cluster: Cluster, changing: str) -> None:
    body = _object(changing, fixed="a", grows=1)
    cluster.create(changing, body).ok()
    one = f"{changing}/c"
    assert _patched(cluster, one, fixed="b") == {
        ("spec.fixed", "FieldValueInvalid", 'Invalid value: "b": is immutable')
    }
    assert {where for where, _, _ in _patched(cluster, one, grows=0)} == {"spec.grows"}
    assert _patched(cluster, one, grows=2) == set()


def _patched(cluster: Cluster, path: str, **spec: Any) -> set[tuple[str, str, str]]:
    return faults(cluster.patch(path, {"spec": spec}))


def test_messages_are_computed(cluster: Cluster, changing: str) -> None:
    answer = cluster.create(changing, _object(changing, limits={"low": 5, "high": 1}), dryRun="All")
    answer.refused(422, "Invalid")
    assert faults(answer) == {("spec.limits.low", "FieldValueForbidden", "Forbidden: far too low")}


def test_rules_of_the_root_see_names_and_status(cluster: Cluster) -> None:
    schema = {
        "type": "object",
        "properties": {"status": {"type": "object", "properties": {"n": {"type": "integer"}}}},
        "x-kubernetes-validations": [
            {"rule": "self.metadata.name.startsWith('c')", "message": "wrong name"},
            {"rule": "!has(self.status) || self.status.n >= 0", "message": "below zero"},
        ],
    }
    body = definition("cogs", schema, group=f"{unique('root')}.volcanoio.dev", subresources={"status": {}})
    with served(cluster, body) as path:
        named: Obj = {"apiVersion": f"{path.split('/')[2]}/v1", "kind": "Cog", "metadata": {"name": "x"}}
        refused = cluster.create(path, named)
        assert faults(refused) == {("<nil>", "FieldValueInvalid", "Invalid value: wrong name")}
        cluster.create(path, json.loads(json.dumps(named).replace('"x"', '"c"'))).ok()
        status: Answer = cluster.patch(f"{path}/c/status", {"status": {"n": -1}})
        assert faults(status) == {("<nil>", "FieldValueInvalid", "Invalid value: below zero")}


NUMBERS: Obj = {"type": "array", "items": {"type": "integer"}}
NAMED: Obj = {"type": "array", "items": {"type": "object", "properties": {"name": TEXT}}}
LABELS: Obj = {"type": "object", "additionalProperties": {"type": "string"}}


@pytest.mark.parametrize(
    ("field", "rule", "excess"),
    [
        (NUMBERS, "self.all(x, x > 1)", ""),
        (NUMBERS, "self.all(x, self.all(y, x == y))", "more than 100x"),
        ({**NUMBERS, "maxItems": 2000}, "self.all(x, self.exists_one(y, x == y))", "1.6x"),
        (NAMED, "self.all(x, self.exists_one(y, x.name == y.name))", "more than 100x"),
        ({**NAMED, "maxItems": 64}, "self.all(x, self.exists_one(y, x.name == y.name))", ""),
        (NAMED, "self == oldSelf", ""),
        (LABELS, "self.all(k, k.matches('^[a-z]+$') && k != 'a')", ""),
        ({"type": "string"}, "!format.dns1123Label().validate(self).hasValue()", "1.006634x"),
        ({"type": "string"}, "self in ['a', 'b'] && self == oldSelf", ""),
        (
            {"x-kubernetes-int-or-string": True},
            "isQuantity(string(self)) && quantity(string(self)).isGreaterThan(quantity('1'))",
            "",
        ),
    ],
)
def test_rules_that_could_take_too_long_are_refused(cluster: Cluster, field: Obj, rule: str, excess: str) -> None:
    answer = cluster.create(CRDS, definition("cogs", ruled(field, rule=rule), group=GROUP), dryRun="All")
    if not excess:
        answer.ok()
        return
    answer.refused(422, "Invalid")
    said = f"estimated rule cost exceeds budget by factor of {excess} ("
    messages = [message for where, _, message in faults(answer) if where == f"{RULE}.rule"]
    assert any(said in one for one in messages), messages


def test_items_of_unbounded_lists_multiply_the_cost_of_their_rules(cluster: Cluster) -> None:
    item = {"type": "string", "x-kubernetes-validations": [{"rule": "self.matches('^[a-z]+$')"}]}
    schema = with_spec({"a": {"type": "array", "items": item}})
    answer = cluster.create(CRDS, definition("cogs", schema, group=GROUP), dryRun="All")
    answer.refused(422, "Invalid")
    assert any("exceeds budget" in message for _, _, message in faults(answer))
    bounded = {"type": "array", "maxItems": 10, "items": {**item, "maxLength": 63}}
    cluster.create(CRDS, definition("cogs", with_spec({"a": bounded}), group=GROUP), dryRun="All").ok()
