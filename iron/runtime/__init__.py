"""Runs compiled kernels: arrays in, launches, caching, devices."""
