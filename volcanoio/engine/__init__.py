"""The engine: schedulers and controllers as pure, synchronous functions of events.

No I/O, no clock and no randomness: time and seeds arrive inside events, and what is to be done leaves as effects. So a
journal of events gives the same decisions again. May import `framework` and `model`. Start with `hosting`, then
`queues` (a small controller), `jobs` and `scheduling`.
"""
