"""The Job controller: Volcano's Jobs as a pure reducer.

Read in this order. `table`: phase × action as data. `state`: what is known about one job, its pods in an `overlay`.
`reducer`: one event, in five steps: `folding` (observations, and through `events` the lifecycle events they are),
`outcomes` (of our own writes, and the pace that follows from them, `pacing`), `answers` (of the policies), `planning`
(what was decided, `deciding`, then what `converge` keeps up behind the `gate`), questions (`occasions`) and timers
(`draft`). A plan begins with the `roll` of the pods; `pausing` and `relevance` say when there need be none. `ledger`
is what must survive us, stored with the counts of `counting` and the phase of `status`; `actions` with `targets`,
`delayed`, `overriding` and `alerts` write decisions into it, `commands` are those of users. What is made: `podgroup`
with `framework.podusage`, `pods`, `claims`, `supports`, `plugins`, worked out once per spec in `wanted`.
"""
