"""ResourceQuota: what objects use, what a namespace may use, and the sum kept beside every write."""
