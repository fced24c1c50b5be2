"""Other libraries doing what a kernel does: one module a library, records keyed by kernel name.

Kernels know no peer. A library that is not installed contributes nothing.
"""
