"""`python -m tests.golden`: writes the golden texts anew and removes those that nothing makes."""

from tests.golden.texts import HERE, hosts, pairs, written


def main() -> None:
    """Names every text that has changed."""
    made = dict([written(target, name) for target, name in pairs()]) | hosts()
    for path in HERE.glob("*/*"):
        if path.is_file() and path.suffix != ".pyc" and path not in made:
            path.unlink()
            print(f"gone     {path.relative_to(HERE)}")
    for path, text in made.items():
        before = path.read_text() if path.exists() else None
        if before != text:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
            print(f"{'new    ' if before is None else 'changed'}  {path.relative_to(HERE)}")


main()
