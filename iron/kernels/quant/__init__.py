"""Decoding of packed weights."""
