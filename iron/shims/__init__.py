"""Backends that run generated CUDA, HIP and Metal text on the CPU, one fibre for each thread.

The text is compiled as C++ by clang. Threads are switched only where they meet, in orders that
are chosen, so that a missing barrier or a divergent collective shows; what was never written reads
as ones; accesses outside memory end the launch with an error.
"""
