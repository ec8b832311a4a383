"""Admission webhooks: who is asked about a write, how, and what follows from the answers.

Kubernetes: apiserver `pkg/admission/plugin/webhook`. `gate` is what the rest of the server calls.
"""
