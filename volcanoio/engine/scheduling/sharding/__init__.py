"""The part of a cluster that a scheduler uses when several divide the nodes by NodeShards. Start at `node_shards`.

The controller that assigns nodes to shards is `volcanoio.engine.sharding`.
"""
