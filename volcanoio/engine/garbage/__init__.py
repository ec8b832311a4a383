"""The clean-up controller: finished Jobs are deleted when their TTL has passed."""
