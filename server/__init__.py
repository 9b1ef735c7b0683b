"""The process: settings, ASGI application, authentication, command line, embedded servers."""
