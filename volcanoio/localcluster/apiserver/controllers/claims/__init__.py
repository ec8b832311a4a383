"""Claims and volumes: who belongs to whom, making volumes of the default class, and protection of what is in use.

Kubernetes: pkg/controller/volume/{persistentvolume,pvcprotection,pvprotection}.
"""
