"""Copies topics, settings, rights and group offsets from one cluster to another: MirrorMaker 2's model, on Spark."""
