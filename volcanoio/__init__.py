"""volcanoio: Volcano, the Kubernetes batch system, as an event-sourced asyncio controller framework."""

__version__ = "0.1.0"
