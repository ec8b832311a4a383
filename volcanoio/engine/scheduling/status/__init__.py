"""What a cycle writes at its close: PodGroup phases and conditions, Kubernetes Events, pod conditions, queue status.

It may import `cluster` and `session`. Start with `closing.close`; Volcano's texts are in `explanation`.
"""
