"""What every type needs: the request context, interfaces, scalars and errors."""
