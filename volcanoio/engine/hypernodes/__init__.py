"""The HyperNode controller: node counts, and HyperNodes discovered from node labels and from an InfiniBand fabric.

Start with `controller`; `nodes_by_hyper_node` resolves members, `configuration` parses the section of the configuration
file, `labels` and `fabric` derive HyperNodes, `reconciliation` compares them with the existing ones.
"""
