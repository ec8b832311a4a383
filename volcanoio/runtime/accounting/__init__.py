"""The history of finished jobs: a SQLite file that the leading controllers write.

May import what runtime may. `history_store` is the file, `history_recorder` fills it from events; nothing else
writes it.
"""
