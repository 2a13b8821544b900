"""Logins with OAUTHBEARER, and the sources of their tokens. See README.md."""
