"""What plugins share about nodes: labels and taints indexed, filters and scores that look at nodes alone."""
