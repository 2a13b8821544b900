"""Logins with OAUTHBEARER: where the tokens come from. See README.md."""
