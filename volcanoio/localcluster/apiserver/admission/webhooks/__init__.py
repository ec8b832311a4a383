"""Admission webhooks: which ones a write calls, how, and how their answers are applied.

Kubernetes: apiserver `pkg/admission/plugin/webhook`. The rest of the server calls `dispatcher`; start there.
"""
