"""A real cluster for tests, in well under a second. See README.md."""
