"""The public interface for authors of plugins, policies and controllers: events, effects, decisions and extension
points.
"""
