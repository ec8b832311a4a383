"""Volumes, claims and classes. No claim is of a class that a volume has, so that none is bound."""

from __future__ import annotations

import random

from tests.contract.differential.kind import OWN, SELECTORS, Kind, Obj, chosen, obj, some

_SIZES = ("1Gi", "1Gi", "1e9", "0", "-1", "2048Mi")
_MODES: tuple[list[str], ...] = (
    ["ReadWriteOnce"],
    ["ReadWriteMany", "ReadOnlyMany"],
    ["ReadWriteOncePod", "ReadWriteOnce"],
    ["Odd"],
    [],
)


def _claim(name: str, rng: random.Random) -> Obj:
    spec: Obj = {"accessModes": rng.choice((_MODES[0], *_MODES)), "storageClassName": f"{OWN}-claims"}
    spec["resources"] = {"requests": rng.choice(({"storage": rng.choice(_SIZES)}, {"storage": "1Gi"}, {}))}
    spec |= some(
        rng,
        0.15,
        volumeMode=chosen("Block", "Odd"),
        selector=chosen(*SELECTORS),
        storageClassName=f"{OWN}-CLAIMS",
        dataSource={"kind": "PersistentVolumeClaim", "name": "x"},
    )
    return obj("v1", "PersistentVolumeClaim", name, spec=spec)


def _claim_change(rng: random.Random) -> Obj:
    return {
        "spec": rng.choice(
            (
                {"resources": {"requests": {"storage": rng.choice(_SIZES)}}},
                {"accessModes": ["ReadWriteMany"]},
                {"storageClassName": "other"},
                {"volumeMode": "Block"},
            )
        )
    }


def _volume(name: str, rng: random.Random) -> Obj:
    spec: Obj = {"accessModes": rng.choice((_MODES[0], *_MODES)), "storageClassName": f"{OWN}-volumes"}
    spec["capacity"] = rng.choice(({"storage": rng.choice(_SIZES)}, {"storage": "1Gi"}, {}, {"cpu": "1"}))
    spec |= rng.choice(
        (
            {"hostPath": {"path": "/a"}},
            {"hostPath": {"path": "/a", "type": "Directory"}},
            {"hostPath": {"path": ""}},
            {"hostPath": {"path": "/a/../b"}},
            {"nfs": {"server": "s", "path": "/p"}},
            {"nfs": {"server": "", "path": "p"}},
            {"csi": {"driver": "d.example.com", "volumeHandle": "h"}},
            {"csi": {"driver": "", "volumeHandle": ""}},
            {},
            {"hostPath": {"path": "/a"}, "nfs": {"server": "s", "path": "/p"}},
            {"local": {"path": "/l"}},
        )
    )
    spec |= some(rng, 0.2, persistentVolumeReclaimPolicy=chosen("Delete", "Recycle", "Odd"), mountOptions=["ro"])
    spec |= some(rng, 0.1, volumeMode=chosen("Block", "Odd"))
    return obj("v1", "PersistentVolume", name, spec=spec)


def _volume_change(rng: random.Random) -> Obj:
    return {
        "spec": rng.choice(
            (
                {"persistentVolumeReclaimPolicy": rng.choice(("Delete", "Retain"))},
                {"hostPath": {"path": "/other"}},
                {"capacity": {"storage": "3Gi"}},
                {"volumeMode": "Block"},
            )
        )
    }


def _class(name: str, rng: random.Random) -> Obj:
    provisioner = rng.choice(("kubernetes.io/no-provisioner", "example.com/p", "", "not a name"))
    parts = some(
        rng,
        0.3,
        reclaimPolicy=chosen("Retain", "Recycle"),
        volumeBindingMode=chosen("WaitForFirstConsumer", "Odd"),
        parameters=chosen({"a": "b"}, {"": "x"}),
        allowVolumeExpansion=True,
        mountOptions=["ro"],
        allowedTopologies=[{"matchLabelExpressions": [{"key": "zone", "values": ["a"]}]}],
    )
    return obj("storage.k8s.io/v1", "StorageClass", name, provisioner=provisioner, **parts)


def _class_change(rng: random.Random) -> Obj:
    return rng.choice(
        (
            {"allowVolumeExpansion": rng.choice((True, None))},
            {"provisioner": "example.com/other"},
            {"parameters": {"c": "d"}},
            {"reclaimPolicy": rng.choice(("Retain", "Delete"))},
            {"mountOptions": ["rw"]},
        )
    )


STORAGE = (
    Kind("persistentvolumeclaims", _claim, _claim_change, shared=True),
    Kind("persistentvolumes", _volume, _volume_change, cluster=True, shared=True),
    Kind("storageclasses.v1.storage.k8s.io", _class, _class_change, cluster=True),
)
