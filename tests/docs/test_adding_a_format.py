"""The page about adding a format is true: its blocks run in order as one file."""

import re
import runpy
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "adding-a-format.md"


def test_the_page_runs(tmp_path: Path, capsys):
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) == 3
    file = tmp_path / "adding_a_format_page.py"
    file.write_text("\n\n".join(blocks))
    runpy.run_path(str(file))
    shown = capsys.readouterr().out
    assert "6.3333 [(128, 18), (128, 2)]" in shown
    assert "True" in shown
