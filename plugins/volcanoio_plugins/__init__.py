"""The built-in plugins, written with the public interface that third parties use."""
