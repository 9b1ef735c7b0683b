"""Build of the documentation site from the documents of this repository."""
