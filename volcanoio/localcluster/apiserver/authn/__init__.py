"""Authentication: the owner's token, client certificates, service account tokens, impersonation.

`guard` authenticates a request, `credentials` holds the server's certificates and keys, `tokens` issues and verifies
service account tokens. Start with `guard`.
"""
