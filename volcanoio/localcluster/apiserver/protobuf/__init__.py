"""Request bodies in Kubernetes' protobuf form, converted to the JSON that a Go client would have sent.

`decoding` reads bodies by the messages of `table`, which `generate` writes from Kubernetes' Go types.
"""
