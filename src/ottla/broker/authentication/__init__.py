"""How the clients of a listener prove who they are."""
