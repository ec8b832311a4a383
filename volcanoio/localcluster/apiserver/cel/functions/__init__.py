"""The functions of Kubernetes' CEL environment, one file a library: a table of overloads and implementations."""
