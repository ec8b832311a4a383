"""Who a request comes from: the owner's token, client certificates, service account tokens, impersonation."""
