"""The process runtime of `volcanoio up --run`: containers of pods as local processes.

Start with `runtime` (it implements `nodes.container_runtime.ContainerRuntime`), then `launcher` and `launch`. May
import `model`, `kube`, the interfaces of `nodes`, and the stream protocol of the API server.
"""
