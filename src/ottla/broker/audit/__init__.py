"""The audit of authorization decisions and logins, written without delaying requests."""
