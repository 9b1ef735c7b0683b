"""The media server that carries sound and pictures of voice channels (ADR 83)."""
