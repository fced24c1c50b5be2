"""Every public name of the vocabulary says what it means and shows it."""

import doctest
import inspect

import pytest

import iron.lang as lang

FUNCTIONS = {n: f for n in lang.__all__ if inspect.isfunction(f := getattr(lang, n))}


def namespace() -> dict[str, object]:
    names = {n: getattr(lang, n) for n in lang.__all__}
    names["R"], names["N"] = lang.dims("R N")
    names["double"] = lang.inline(lambda x, y: None)
    return names


def run(name: str, function: object) -> doctest.TestResults:
    """The examples of one docstring, with the vocabulary imported."""
    (test,) = doctest.DocTestFinder(recurse=False).find(function, name, globs=namespace())
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS)
    runner.run(test, out=lambda _: None)
    return runner.summarize(verbose=False)


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_example(name: str):
    result = run(name, FUNCTIONS[name])
    assert result.failed == 0
    assert result.attempted > 0


def test_a_wrong_example_fails():
    def wrong():
        """One.

        >>> maximum(f32(1), f32(2))
        np.float32(1.0)
        """

    assert run("wrong", wrong).failed == 1


def test_every_row_with_an_author_name_is_in_the_vocabulary():
    from iron.ir import ops as _rows  # noqa: F401
    from iron.ir.table import elementwise

    operators = {"sub", "mul", "div", "floordiv", "mod", "neg", "and", "or", "xor", "not", "shl"}
    operators |= {"shr", "eq", "ne", "lt", "le", "gt", "ge", "cast"}
    renamed = {"abs": "absolute", "min": "minimum", "max": "maximum", "pow": "power"}
    for row in elementwise():
        if row.name not in operators:
            assert callable(getattr(lang, renamed.get(row.name, row.name)))


def test_all_lists_every_import():
    public = {n for n in vars(lang) if not n.startswith("_")}
    modules = {n for n in public if inspect.ismodule(getattr(lang, n))}
    assert public - modules == set(lang.__all__)
