"""The services that carry pushes: Web Push, APNs, FCM (ADR 88)."""
