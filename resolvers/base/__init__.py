"""What every use case needs: the application, errors, input checks, cursors and pages."""
