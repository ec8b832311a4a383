"""Admission of the cluster's writes: the reviewer, and the HTTPS server that API servers call.

`reviewer` reads what a review needs and calls `engine.admission`; the embedded server (`runtime.admission`) and the
webhook server (`server`) share it. `paths` lists the webhooks and their configurations, `registration` keeps these in
the API server, `certificates` makes and renews the serving certificate, `queue_rights` asks who may use a restricted
queue. Start with `reviewer`. May import `engine`, `kube`, `framework` and `model`.
"""
