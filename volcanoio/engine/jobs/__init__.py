"""The Job controller: Volcano's Jobs as a pure reducer.

Read in this order. `table`: phase × action as data. `state`: what is known about one job, its pods in an `overlay`.
`reducer`: one event, in five steps: `folding` (observations, and through `events` the lifecycle events they are),
`outcomes` (of our own writes), `answers` (of the policies), `planning` (what is decided, then what `converge` keeps
up), questions and timers (`draft`). A plan begins with the `roll` of the pods. `ledger` is what must survive us,
stored with the counts of `counting` and the phase of `status`; `actions` and `delayed` write decisions into it. What
is made: `podgroup` with `usage`, `pods`, `claims`, `supports`, `plugins`, worked out once per spec in `wanted`.
"""
