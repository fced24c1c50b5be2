"""Passes: each file is one function `Kernel -> Kernel` that keeps the meaning of a kernel."""
