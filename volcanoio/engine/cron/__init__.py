"""The CronJob controller: schedules, and the runs that it starts, replaces and deletes.

Start with `controller`; `schedule` parses cron expressions and computes run times, `runs` is about the Jobs, `state`
is what is known of one CronJob. May import `framework` and `model`.
"""
