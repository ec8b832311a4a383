"""Claims of pods, for volumes and for devices: what they require of nodes, and where volumes are in use.

Start with `volumes`. May import `cluster`, whose ledger has these indexes, and what that may import.
"""
