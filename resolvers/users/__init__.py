"""Use cases on users: sign-in, profiles and token renewal."""
