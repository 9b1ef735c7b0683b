"""HTTP: parsing requests, forming responses, origins, request log, static pages."""
