#!/usr/bin/env python3
"""Runs cells in the kernel that is installed, and prints what each shows: installed_cells.py CELL..."""
import sys

import nbformat
from nbclient import NotebookClient

notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sys.argv[1:]])
NotebookClient(notebook, kernel_name="kolo", timeout=600).execute()
for cell in notebook.cells:
    for output in cell.outputs:
        print(output.get("text") or output.data.get("text/plain"), end="\n")
