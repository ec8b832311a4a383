"""Request bodies in Kubernetes' protobuf form, read into the JSON a Go client would have sent instead."""
