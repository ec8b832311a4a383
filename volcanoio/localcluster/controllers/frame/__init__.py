"""What all controllers of this room share: the contract, indexed tables, the keyed backlog and the async host."""
