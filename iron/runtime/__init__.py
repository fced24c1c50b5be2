"""Runs compiled kernels: arrays in, launches, caching, devices."""

from iron.runtime.current import device, use

__all__ = ["device", "use"]
