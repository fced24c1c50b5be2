"""What the manifest says of a kernel's forms is what the runtime does with them."""

import copy
import json
from functools import cache
from itertools import accumulate
from typing import Any

import jsonschema
import numpy as np
import pytest

from iron.backends.cuda_forms import forms
from iron.check.expand import expand
from iron.check.interpret import Interpreted, read_call
from iron.check.prepare import prepare
from iron.check.specialisations import specialise
from iron.compiler import lower
from iron.emit.build import build
from iron.emit.expression import evaluate
from iron.emit.manifest import Specialised, document, schema
from iron.emit.targets import destination
from iron.ir import host
from iron.runtime.drivers.choice import Choice, Place
from iron.worker import discover

TO = destination("cuda:sm_90a")
# Strided and contiguous, neighbours of one thread and of several, vectors, packed weights, none.
KERNELS = {
    "copy": ("f16", "FORM=transposed"),
    "select": ("f16",),
    "cast": ("f32,bf16",),
    "rms_norm": ("f16", "VEC=4", "N=4"),
    "dequant_gather": ("q4_0",),
    "gather": ("bf16",),
}
FORMS = {"copy": 3, "select": 2, "cast": 2, "rms_norm": 2, "dequant_gather": 2, "gather": 1}
"""How many forms each has, all of which the trials come to."""


@cache
def sampled(name: str) -> tuple[Specialised, Interpreted, dict[str, Any]]:
    """A kernel, a call of it, and its record, read back from JSON."""
    for module in discover.modules(("iron.kernels",)):
        declared = discover.kernels(module).get(name)
        if declared is None:
            continue
        fitting = (c for c in expand(declared) if all(part in c.label for part in KERNELS[name]))
        made = ((c, specialise(c, prepare(c), TO.target)) for c in fitting)
        case, of = next((c, of) for c, of in made if of is not None)
        arguments = {**prepare(case).arguments, **of.binding.consts}
        call = read_call(declared, arguments, TO.target.simd)
        record = build(of, TO, ()).record
        jsonschema.validate(json.loads(json.dumps(document([record]))), schema())
        return of, call, json.loads(json.dumps(record))
    raise AssertionError(name)


def trial(rng: np.random.Generator, call: Interpreted, entry: dict[str, Any]) -> dict[str, Any]:
    """Sizes near those of the call, and where tensors might lie, aligned more often than not."""
    dims = dict(call.binding.dims)
    for name in dims:
        dims[name] = int(rng.choice([dims[name], 1, 24, 32, 96]))
    places: dict[str, Place] = {}
    for p in entry["parameters"]:
        if p["role"] != "tensor":
            continue
        env = {**entry["consts"], **dims}
        shape = tuple(int(evaluate(s["tree"], env)) for s in p["shape"])
        steps = [*accumulate((1, *reversed(shape[1:])), lambda a, b: a * b)][::-1][: len(shape)]
        pad = int(rng.choice([0, 0, 0, 1, 8]))
        strides = [s + pad * (at < len(steps) - 1) for at, s in enumerate(steps)]
        if not p["contiguous"] and strides and rng.random() < 0.3:
            strides[-1] = 2
        offset = int(rng.choice([0, 0, 0, 0, 2, 8, 16]))
        size = call.arrays[p["name"]].itemsize
        places[p["name"]] = Place(1024 + offset, size, shape, tuple(strides))
    return {"dims": dims, "places": places}


def known(call: Interpreted, entry: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """What expressions are evaluated with."""
    scalars = {k: v for k, v in call.scalars.items() if v is not None}
    env = {**entry["consts"], **given["dims"], **scalars}
    for name, place in given["places"].items():
        env[f"address({name})"] = place.pointer
        env |= {f"stride({name}, {axis})": s for axis, s in enumerate(place.strides)}
    return env


def disagreements(name: str, record: dict[str, Any]) -> tuple[list[str], set[int]]:
    """Trials in which the manifest's choice or its group counts are not the runtime's."""
    of, call, entry = sampled(name)
    kernel = lower(of.kernel)
    choice = Choice(forms(kernel))
    listed = record["targets"][0]["forms"]
    rng = np.random.default_rng(11)
    wrong: list[str] = []
    met: set[int] = set()
    for number in range(40):
        given = trial(rng, call, entry)
        env = known(call, entry, given)
        grid, failed = host.evaluate(kernel, call.scalars, given["dims"])
        if failed:
            continue
        form, extents = choice.of(given["places"], call.scalars, given["dims"], grid)
        every = [choice.form(n) for n in range(len(listed) + 1)]
        held = (all(evaluate(c["tree"], env) for c in f["requires"]) for f in listed)
        mine = next((n for n, right in enumerate(held) if right), len(listed))
        met.add(mine)
        groups = (listed[mine] if mine < len(listed) else record["launch"])["groups"]
        counts = tuple(max(0, int(evaluate(g["tree"], env))) for g in groups)
        if every[mine] is not form or counts != extents:
            wrong.append(f"{number}: form {mine}, groups {counts}, the runtime's {extents}")
    return wrong, met


@pytest.mark.parametrize("name", KERNELS)
def test_a_host_takes_the_form_that_the_runtime_takes(name: str):
    wrong, met = disagreements(name, sampled(name)[2])
    assert wrong == []
    assert len(met) == FORMS[name]


@pytest.mark.parametrize(
    ("name", "lacks"),
    [("copy", "address(x) % 16"), ("copy", "stride(x, 2) == 1"), ("cast", "N % 4 == 0")],
)
def test_a_condition_that_is_left_out_is_seen(name: str, lacks: str):
    record = copy.deepcopy(sampled(name)[2])
    form = record["targets"][0]["forms"][0]
    kept = [c for c in form["requires"] if lacks not in c["text"]]
    assert len(kept) == len(form["requires"]) - 1
    form["requires"] = kept
    assert disagreements(name, record)[0]


def test_the_arguments_of_a_form_are_those_of_its_text():
    for name in KERNELS:
        of, _, record = sampled(name)
        target = record["targets"][0]
        made = list(forms(lower(of.kernel)))
        listed = [*target["forms"], target]
        assert [[f.kind for f in form.code.fields] for form in made] == [
            [a["kind"] for a in form["arguments"]] for form in listed
        ]
        assert target["dynamic_bytes"] == made[-1].code.dynamic


def test_the_schema_refuses_a_form_with_something_missing():
    record = sampled("copy")[2]
    validator = jsonschema.Draft202012Validator(schema())
    assert validator.is_valid(document([record]))
    for key in record["targets"][0]["forms"][0]:
        spoiled = copy.deepcopy(record)
        del spoiled["targets"][0]["forms"][0][key]
        assert not validator.is_valid(document([spoiled])), key
    for value in ({"address": "x"}, {"stride": "x", "type": "i64"}, {"stride": "x", "axis": 0}):
        spoiled = copy.deepcopy(record)
        spoiled["targets"][0]["forms"][0]["requires"][0]["tree"] = value
        assert not validator.is_valid(document([spoiled])), value
    spoiled = copy.deepcopy(record)
    del spoiled["targets"][0]["forms"]
    assert not validator.is_valid(document([spoiled]))
