"""The write path after a message has its place: commit, fan-out, publish and recovery."""
