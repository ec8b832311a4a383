"""Accounts, roles and who has them."""

from __future__ import annotations

import random

from tests.contract.differential.kind import SELECTORS, Kind, Obj, chosen, obj

_GROUP = "rbac.authorization.k8s.io"
_RULES = (
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["*"], "resourceNames": ["a"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": []},
    {"verbs": ["get"]},
    {"nonResourceURLs": ["/healthz"], "verbs": ["get"]},
    {"nonResourceURLs": ["/healthz"], "apiGroups": [""], "resources": ["pods"]},
)
_SUBJECTS = (
    {"kind": "ServiceAccount", "name": "default", "namespace": "default"},
    {"kind": "ServiceAccount", "name": "Not_A_Name"},
    {"kind": "ServiceAccount", "apiGroup": _GROUP, "name": "default", "namespace": "default"},
    {"kind": "User", "name": "me"},
    {"kind": "User", "name": "me", "apiGroup": "other"},
    {"kind": "Group", "name": ""},
    {"kind": "Robot", "name": "r2"},
)


def _account(name: str, rng: random.Random) -> Obj:
    parts = rng.choice(({}, {"secrets": [{"name": "a"}]}, {"automountServiceAccountToken": False}))
    return obj("v1", "ServiceAccount", name, **parts)


def _rules(rng: random.Random) -> list[Obj]:
    return rng.choice(([rng.choice(_RULES)], rng.sample(_RULES, 2), [_RULES[0]], []))


def _role(name: str, rng: random.Random) -> Obj:
    return obj(f"{_GROUP}/v1", "Role", name, rules=_rules(rng))


def _cluster_role(name: str, rng: random.Random) -> Obj:
    made = obj(f"{_GROUP}/v1", "ClusterRole", name, rules=_rules(rng))
    if rng.random() < 0.2:
        labels = rng.choice(([{"matchLabels": {"absent": "has"}}], [], [rng.choice(SELECTORS[2:6])]))
        made |= {"aggregationRule": {"clusterRoleSelectors": labels}, "rules": []}
    return made


def _binding(kind: str, name: str, rng: random.Random) -> Obj:
    reference = {"kind": rng.choice(("ClusterRole", "ClusterRole", "Role", "Odd")), "name": rng.choice(("a", "b", ""))}
    if rng.random() < 0.7:
        reference["apiGroup"] = rng.choice((_GROUP, _GROUP, "other"))
    subjects = rng.choice(([rng.choice(_SUBJECTS)], rng.sample(_SUBJECTS, 2), [_SUBJECTS[0]], []))
    return obj(f"{_GROUP}/v1", kind, name, roleRef=reference, subjects=subjects)


def _role_binding(name: str, rng: random.Random) -> Obj:
    return _binding("RoleBinding", name, rng)


def _cluster_role_binding(name: str, rng: random.Random) -> Obj:
    return _binding("ClusterRoleBinding", name, rng)


def _rules_change(rng: random.Random) -> Obj:
    return rng.choice(({"rules": None}, {"rules": _rules(rng)}))


def _binding_change(rng: random.Random) -> Obj:
    role = {"apiGroup": _GROUP, "kind": "ClusterRole", "name": rng.choice(("a", "c"))}
    return rng.choice(({"subjects": [rng.choice(_SUBJECTS)]}, {"subjects": None}, {"roleRef": role}))


RBAC = (
    Kind("serviceaccounts", _account, chosen(*({"automountServiceAccountToken": one} for one in (True, None)))),
    Kind(f"roles.v1.{_GROUP}", _role, _rules_change),
    Kind(f"rolebindings.v1.{_GROUP}", _role_binding, _binding_change),
    Kind(f"clusterroles.v1.{_GROUP}", _cluster_role, _rules_change, cluster=True),
    Kind(f"clusterrolebindings.v1.{_GROUP}", _cluster_role_binding, _binding_change, cluster=True),
)
