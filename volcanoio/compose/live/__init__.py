"""What a cluster itself answers about its jobs, the logs of their pods, and requests to its controllers.

Answers are those of the running scheduler, or of conditions, annotations and Events alone. Start with
`running_scheduler`; `conditions` needs the rights of one namespace only, `commands` the right to create Commands.
"""
