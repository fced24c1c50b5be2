"""LLVM IR for CPUs: one simdgroup becomes one vector, uniform values stay scalar.

Rooms: `types` spells dtypes, `writer` holds the text of a function, `lanes` one elementwise
computation, `state` what is known while a kernel is emitted; `arith`, `convert`, `dots`, `memory`,
`control` and `group` emit the table's rows by topic; `strides` classifies addresses; `simt` splits
a kernel at barriers and `pieces` emits the split; `entry` makes the module, `machine` its object
code.
"""
