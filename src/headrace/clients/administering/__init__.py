"""Administration: topics, settings, and the cluster itself."""
