"""`python -m bench.workers`: one server with 1, 2 and 4 processes."""
