"""Reports that are opened, with their events for webhooks (ADR 97)."""
