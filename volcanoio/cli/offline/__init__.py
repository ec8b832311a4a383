"""Commands about a state (`simulate`, `why`, `eta`, `snapshot`) or about the past (`replay`, `history`, `timeline`).

They may import what commands may. Start with `state_source`, which reads the state.
"""
