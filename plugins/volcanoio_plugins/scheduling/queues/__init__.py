"""What plugins share about queues: demands, limits, shares, trees."""
