"""Parts of one plugin each, beside the plugin that has their name in its imports."""
