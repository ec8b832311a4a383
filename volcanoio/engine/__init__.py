"""What is decided, and what follows from it: pure and synchronous. No I/O, clock or randomness; time and seeds arrive
inside events.
"""
