"""The notebooks of the course, found in their folders, and what the tests read of them. JSON alone: importing nbformat
takes three seconds."""
import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
START = "Start_Here.ipynb"


def names(folder):
    return sorted(str(path.relative_to(ROOT)) for path in (ROOT / folder).glob("*.ipynb"))


LESSONS, SOLUTIONS = names("labs"), names("labs/solutions")
ALL = [START, *LESSONS, *SOLUTIONS]


def number(name):
    """Of a lesson or its solution: "2.1" of "labs/2.1.System-Topology.ipynb"."""
    return re.match(r"\d+(?:\.\d+)?", Path(name).name)[0]


def joined(text):
    return text if isinstance(text, str) else "".join(text)


class Cell:
    def __init__(self, cell):
        self.type, self.metadata, self.source = cell["cell_type"], cell["metadata"], joined(cell["source"])
        self.outputs, self.count = cell.get("outputs", []), cell.get("execution_count")

    def streams(self):
        return "".join(joined(o["text"]) for o in self.outputs if o["output_type"] == "stream")

    def shown(self, mime):
        return [joined(o["data"][mime]) for o in self.outputs if mime in o.get("data", {})]


class Notebook:
    """Of a file's JSON, or of a notebook that nbformat or nbclient made, which has the same keys."""

    def __init__(self, notebook):
        self.metadata, self.cells = notebook["metadata"], [Cell(cell) for cell in notebook["cells"]]
        self.code = [cell for cell in self.cells if cell.type == "code"]
        self.prose = [cell for cell in self.cells if cell.type == "markdown"]
        self.text = "\n".join(cell.source for cell in self.prose)

    def printed(self):
        return "".join(cell.streams() for cell in self.code)

    def exercises(self):
        """The exercises that have hints here: ["1.a", "1.b"]."""
        return sorted({found for cell in self.code for found in re.findall(r'course_hint\("([\w.]+)"\)', cell.source)})


def read(name):
    return Notebook(json.loads((ROOT / name).read_text()))


def check_outputs(notebook):
    """Every cell shows something, none an error, and every chart comes as two pictures and as text."""
    for cell in notebook.code:
        assert [o for o in cell.outputs if o["output_type"] == "error"] == [], cell.source
        assert cell.outputs, f"shows nothing:\n{cell.source}"
        charts = len(re.findall(r"^kolo_plot(?:_history)?\(", cell.source, flags=re.MULTILINE))
        for mime in ("image/png", "image/svg+xml", "text/plain"):
            assert len(cell.shown(mime)) >= charts, f"no {mime}:\n{cell.source}"
        assert len(cell.shown("image/png")) <= len(cell.shown("text/plain")), cell.source
