"""CustomResourceDefinitions: which are accepted, and under which names they are served."""
