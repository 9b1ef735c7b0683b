"""The GraphQL types and root fields of workspaces, roles and channels."""
