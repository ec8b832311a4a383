"""Commands that decide about a state at hand: `simulate`, `why`, `snapshot`, `replay`; and `history`, of past ones.

They may import what commands may. Start with `state_source`, which reads the state.
"""
