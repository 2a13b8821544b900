"""Failover and failback: clients switch between the two clusters of a flow."""
