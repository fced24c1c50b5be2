"""Quantised weights on the host: formats as data, one codec, packed tensors, files."""
