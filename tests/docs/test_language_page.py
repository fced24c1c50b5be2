"""The language page is true: its blocks run in order as one file."""

import re
import runpy
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "language.md"


def test_the_page_runs(tmp_path: Path, capsys):
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) > 6
    file = tmp_path / "language_page.py"
    file.write_text("\n\n".join(blocks))
    runpy.run_path(str(file))
    shown = capsys.readouterr().out
    assert "error[E0202]" in shown
    assert "x[i / 2]" in shown
