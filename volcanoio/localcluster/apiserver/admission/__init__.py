"""Admission: reviewers of this process, Kubernetes' built-in plugins, and webhooks.

`chain` lists which plugin acts on which kind, in Kubernetes' order; `reviewers` is the interface for admission in the
same process; `webhooks` calls those of the cluster. The registry calls them; they do not import it, its kinds
excepted. Start with `chain`.
"""
