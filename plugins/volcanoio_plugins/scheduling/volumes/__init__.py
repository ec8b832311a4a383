"""What volumes ask of nodes, and what is written before a bind."""
