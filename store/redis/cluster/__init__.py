"""A Redis Cluster: its nodes, and the slots that they own."""
