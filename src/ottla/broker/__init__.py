"""Where the machines meet: requests are dispatched, handled and answered here. See README.md."""
