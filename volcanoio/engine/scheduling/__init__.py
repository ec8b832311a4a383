"""The scheduler: columns, session, statement, placement, explanation."""
