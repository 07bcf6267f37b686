"""What nbformat, the reference implementation, says of notebook files.

usage: oracle.py DIR

For each DIR/*.ipynb prints a JSON object: whether the file is valid, the types
of its cells and their sources (as UTF-16 in hex, for lone surrogates), and the
text that nbformat would write, if it can.
"""

import glob
import json
import os
import sys
import warnings

import nbformat
from nbformat import validator

warnings.simplefilter("ignore")


def look(path):
    with open(path, encoding="utf-8-sig", newline="") as file:
        text = file.read()
    said = {"file": os.path.basename(path)}
    try:
        plain = json.loads(text)
        said["valid"] = bool(validator.isvalid(plain, version=plain["nbformat"], version_minor=plain["nbformat_minor"]))
    except Exception as error:
        said["valid"], said["error"] = False, repr(error)
    if not said["valid"]:
        return said
    try:
        notebook = nbformat.reads(text, as_version=nbformat.NO_CONVERT)
        said["cells"] = [
            [c.cell_type, c.source.encode("utf-16-be", "surrogatepass").hex()] for c in notebook.cells
        ]
        said["written"] = nbformat.writes(notebook, version=nbformat.NO_CONVERT) + "\n"
        said["written"].encode()
    except Exception as error:
        said.pop("written", None)
        said["error"] = repr(error)
    return said


for path in sorted(glob.glob(os.path.join(sys.argv[1], "*.ipynb"))):
    print(json.dumps(look(path)))
