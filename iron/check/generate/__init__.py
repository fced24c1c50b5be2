"""Random well-typed programs from the op table, for comparing every road bit for bit.

`generate(seed)` inverts the table's signatures into a kernel and a setting; `agree` runs roads on
it; `shrink` cuts a program that disagrees down to a file that one command replays:
`python -m iron.check.generate replay FILE`.
"""

from __future__ import annotations

from random import Random

from iron.check.generate.pool import ALL, Pool
from iron.check.generate.program import Program, Setting
from iron.check.generate.steps import SIZE, Scene, close_types
from iron.dtypes import DType, f32, i32, i64, u32
from iron.ir.build import Builder
from iron.ir.core import Block, Kernel, Param, Value
from iron.ir.ops.memory import ATOMICS
from iron.ir.table import OpDef, Trait, elementwise
from iron.ir.types import Tensor, Type, element, tensor, vector

__all__ = ["Program", "generate", "rows"]


def rows(*, expanded: bool = False) -> list[OpDef]:
    """The elementwise rows; elementary functions only when asked for."""
    return [r for r in elementwise() if expanded or not r.has(Trait.EXPANDED)]


def generate(seed: int, *, simd: int | None = None) -> Program:
    """The program of a seed, built without folding. `simd` fixes the simd width.

    Every third seed uses elementary functions, whose bodies make a program many times larger.
    """
    rng = Random(seed)
    width = simd or rng.choice([4, 8, 32])
    threads = rng.choice([1, width, width, 2 * width, 3 * width, 4 * width])
    return _Writer(seed, rng, width, threads).program(rows(expanded=seed % 3 == 0))


class _Writer:
    """Writes one program: parameters, prologue, random steps, and stores of what they left."""

    def __init__(self, seed: int, rng: Random, simd: int, threads: int) -> None:
        self.seed, self.rng, self.simd, self.threads = seed, rng, simd, threads
        self.index = rng.choice([i32, i32, i32, i64])
        self.grid = tuple(rng.choice([1, 2, 3]) for _ in range(rng.choice([1, 1, 2])))
        groups = 1
        for extent in self.grid:
            groups *= extent
        self.total = groups * threads
        self.b = Builder(fold=False)
        self.params: list[Param] = []
        self.values: list[Value] = []
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.dims = {"N": SIZE, "G": self.grid[0]}

    def param(self, name: str, role: str, t: Type) -> Value:
        self.params.append(Param(name, role, t))
        self.values.append(Value(t, None, name))
        return self.values[-1]

    def tensor(self, name: str, elem: DType, space: str, *shape: int, packed: bool = True) -> Value:
        self.shapes[name] = shape
        return self.param(name, "tensor", tensor(elem, len(shape), space, (), packed))

    def program(self, rows: list[OpDef]) -> Program:
        body = Block()
        with self.b.into(body, {}):
            scene, outs = self.scene(rows)
            scene.steps(self.rng.randrange(10, 50))
            scene.show(scene.pool.values[-40:])
            for out in outs:
                self.close(scene, out)
        body.params = tuple(self.values)
        name = f"program_{self.seed}"
        kernel = Kernel(
            name,
            tuple(self.params),
            body,
            self.host(),
            len(self.grid),
            self.threads,
            self.simd,
            (),
            self.index,
        )
        return Program(kernel, Setting(self.seed, self.grid, self.shapes, self.dims))

    def scene(self, rows: list[OpDef]) -> tuple[Scene, list[Value]]:
        rng, odd = self.rng, self.rng.random() < 0.3
        some = rng.sample(ALL, 6)
        inputs = [self.tensor(f"x_{t}", t, "in", SIZE) for t in dict.fromkeys((f32, i32, *some))]
        grids = [self.tensor("grid", rng.choice(ALL), "in", 16, 11, packed=not odd)]
        cells = [self.tensor("cell", rng.choice(ALL), "inout", self.total, packed=not odd)]
        trace = self.tensor("trace", u32, "inout", self.total)
        counter = self.tensor("counter", rng.choice([i32, u32]), "inout", 8)
        outs = [self.out(k) for k in range(rng.choice([2, 3, 4]))]
        scalars = [self.param(f"s{k}", "scalar", rng.choice(ALL)) for k in range(2)]
        dims = [self.param(name, "dim", self.index) for name in ("N", "G")]
        pool = Pool(rng, self.b)
        for v in (*scalars, *dims):
            pool.add(v, True)
        thread, own = self.places(pool, dims[1])
        pool.own = own
        scene = Scene(pool, rows, self.threads, self.index, thread, own, trace)
        scene.inputs, scene.grids, scene.cells = inputs, grids, cells
        scene.counters[counter] = rng.choice(ATOMICS)
        scene.shared = [self.shared(k) for k in range(2)]
        for buffer in inputs:
            at = pool.spread_index(own, SIZE)
            pool.add(self.b.emit("load", buffer, at, attrs=(0,)))
        return scene, outs

    def out(self, number: int) -> Value:
        elem = self.rng.choice([*ALL, f32, i32, u32])
        length = self.rng.choice([1, 1, 1, 3])
        shape = (self.total,) if length == 1 else (self.total, length)
        packed = self.rng.random() < 0.8
        return self.tensor(f"y{number}", elem, "out", *shape, packed=packed)

    def places(self, pool: Pool, groups: Value) -> tuple[Value, Value]:
        """This thread's number in its group, and in the launch."""
        axes = [self.b.emit("group", attrs=(a, self.index)) for a in range(len(self.grid))]
        for v in axes:
            pool.add(v, True)
        number = axes[0]
        if len(axes) > 1:
            number = pool.emit("add", pool.emit("mul", axes[1], groups), axes[0])
        thread = pool.add(self.b.emit("thread", attrs=(self.index,)))
        start = pool.emit("mul", number, pool.const(self.index, self.threads))
        return thread, pool.emit("add", start, thread)

    def shared(self, number: int) -> Value:
        shape = (self.threads,) if number == 0 else (self.threads, 4)
        elem = self.rng.choice([i32, u32, f32, *(ALL if number else ())])
        place = tensor(elem, len(shape), "shared", shape)
        made = self.b.emit("shared", attrs=(place,))
        made.name = f"shared{number}"
        return made

    def close(self, scene: Scene, out: Value) -> None:
        """Stores a mixture of the last values of the output's type."""
        pool, t = scene.pool, out.type
        assert isinstance(t, Tensor)
        wanted = t.elem if t.rank == 1 else vector(t.elem, self.shapes[out.name][1])
        found = close_types(pool.values, wanted) or [pool.pick(wanted)]
        mixed = found[0]
        for v in found[1:]:
            mixed = pool.emit(self.mix(element(t)), mixed, v) if t.elem.kind != "s" else v
        rest = () if t.rank == 1 else (pool.const(i32, 0),)
        self.b.emit_all("store", (out, scene.own, *rest, mixed))

    def mix(self, elem: DType) -> str:
        return "add" if elem is f32 else "xor"

    def host(self) -> Block:
        params = [Value(p.type, None, p.name) for p in self.params if p.role != "tensor"]
        with self.b.block(params) as host:
            rest = [self.b.const(e, self.index) for e in self.grid[1:]]
            self.b.emit_all("yield", (params[-1], *rest))
        return host
