"""Decisions: pure and synchronous. No I/O, clock or randomness; time and seeds arrive inside events."""
