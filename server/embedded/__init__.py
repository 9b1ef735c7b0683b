"""MongoDB and Redis (or Valkey) as child processes, for development and tests."""

from server.embedded.errors import EmbeddedError, PortTaken
from server.embedded.folder import RunningServers, find_running
from server.embedded.servers import EmbeddedServers

__all__ = ["EmbeddedError", "EmbeddedServers", "PortTaken", "RunningServers", "find_running"]
