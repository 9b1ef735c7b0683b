"""Redis: pipelines, cluster nodes, scripts, key names and the fallback while Redis is unavailable."""
