"""Tiles to threads: where each tile value lives, and the code of threads that computes it.

grid        the group's threads as a rectangle, and how tiles lie on it
place       staged, fragment or rebuilt, with the reason
storage     what a kept value is made of; barriers
emitter     the state of a lowering; walks over a thread's chunks
compute     values chunk by chunk
access      reads, writes, gathers, scatters, arrays for thread code
staging     reads into group memory
ahead       reads of a `pipelined` loop that start a turn early
multiply    `mma` as fused multiply-adds of threads
form        the products of a target's simdgroups as numbers
matrix      `mma` by them
reduce      reductions along an axis
control     loops and branches that carry tiles
lower       the order of it all
explain     what `place` decided, for a person
"""
