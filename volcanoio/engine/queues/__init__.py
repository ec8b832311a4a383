"""The queue controller: states, parents, counts, and the Commands that open and close queues."""
