"""What a job took: its wait, run time, requested and used resources, derived from stored objects.

Pure; may import the model and the framework. Start with `finished_jobs`.
"""
