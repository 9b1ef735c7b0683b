"""The services that carry pushes, against servers on loopback that behave like them."""
