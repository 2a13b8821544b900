"""Compares the stages of a pipeline: are all records there, once, in time?"""
