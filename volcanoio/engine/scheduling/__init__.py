"""The scheduler: what it knows, one cycle over it, and what a cycle decided.

Read in this order. What it knows: `cluster` folds events, pods by `pods`, into `columns` (nodes; `rows` as plugins
see them), `tasks` of `shapes` (`subjobs`), `jobs` (`jobtally`), `queues`, `volumes`, `inputs` (further kinds, which
`watching` names, and facts) and the `podindex` of pods that mind each other (`podterms`, `kins`, `tally`); every
change of a task goes through the `ledger`, and sums are `amounts`. Its configuration: `configuration` with
`yamlnodes`, `metricsection` and `configmaps`, what is wrong with it `lint`, brought to life `profile`, the plugins'
answers made one by `combine` and `adapters`.

A cycle: `cycle` opens a `session` (`sessionsight` with `changes`, `sessionturns`, `sessionvotes`), whose `statement`s
place tasks (`placement`) with an `undo` log; `runs` are the tasks as actions get them, `oneturn` the short way.
`backlogs` keep the order of turns across cycles; `hopes`, `room`, `rests` and `slots` say what need not be tried,
`budget` when it is enough, `cyclestats` what was done, `asking` what must be asked elsewhere. Victims: `victims` by
`victimorder` and `victimcolumns`, found by `hunting`; room kept for whom it was made: `holds`, `claims`, `resuming`.
`singles` come last.

What was decided: `closing` (`touched`, `explanation`, `podconditions`, `queuestatus`, `queuegates`) and `evictions`
into the `outbox`, `takeback` where that came to nothing. `picture` and `snapshot` show how it stood; `offline` and
`replay` run all of it without an API server.
"""
