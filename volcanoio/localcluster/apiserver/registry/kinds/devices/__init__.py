"""Kinds of resource.k8s.io: defaults, validation and status rules of claims, templates, classes and slices.

Source: Kubernetes pkg/apis/resource/validation. Start with `claims`; `parts` has the rules that kinds share.
"""
