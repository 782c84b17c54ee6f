"""Administration: topics, settings, groups, and the cluster itself."""
