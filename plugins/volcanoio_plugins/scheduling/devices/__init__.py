"""Plugin deviceshare: devices that several pods of a node share, such as GPUs and NPUs.

`cards` has what all kinds of devices have in common, `ledger` who holds which card; `gpushare`, `vgpu` with `mig`,
`npu` and `mindcluster` are the kinds, `deviceconfig` is the ConfigMap that describes cards. Imports
`volcanoio.framework` and `volcanoio.model` only. Start with `deviceshare`.
"""
