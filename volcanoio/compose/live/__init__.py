"""What a cluster itself answers about its jobs: its running scheduler, or conditions, annotations and Events alone.

Start with `running_scheduler`; `conditions` needs the rights of one namespace only.
"""
