"""The clean-up controller: finished Jobs go when their time to live is over."""
