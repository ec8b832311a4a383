"""The HyperNode controller: node counts, and HyperNodes discovered from node labels and from an InfiniBand fabric.

Start with `controller`; `tree` resolves members, `configuration` parses what is to be discovered, `labels` and `fabric`
derive HyperNodes, `reconciliation` compares them with the existing ones. May import `framework` and `model`.
"""
