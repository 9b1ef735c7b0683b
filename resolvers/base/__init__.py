"""Parts that all use cases share: the application, errors, input checks, cursors and pages."""
