"""The source of `format("ottla")`: planning on the driver, reading in the workers. See README.md."""
