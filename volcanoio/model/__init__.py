"""Kubernetes and Volcano objects as frozen msgspec Structs, quantities and names. This layer imports no other.

Decoding is narrow: a Struct holds the fields we read, and unknown fields are dropped. Such an object is therefore
never written back whole; writes are patches (see `volcanoio.framework.effects`).
"""
