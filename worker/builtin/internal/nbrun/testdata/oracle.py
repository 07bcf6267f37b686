"""Says how a notebook that was run differs from what nbclient makes of it.

usage: oracle.py INPUT RESULT

The outputs and execution counts of all cells are compared, after times, ids
and addresses were made equal; RESULT must be valid for nbformat if INPUT is. nbclient
keeps each stream message as an output and what a terminal would overwrite, so
both are brought into the form that a terminal shows.
"""
import json, re, sys
import nbformat
from nbclient import NotebookClient

NORMAL = [
    (r"0x[0-9a-f]+", "0xADDRESS"),
    (r"(ipykernel_|ipython-input-)[0-9]+[-/0-9a-f]*", r"\1N"),
    (r"[0-9a-f]{32}", "HEX"),
    (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UUID"),
    (r"[0-9.]+ (ns|[uµ]s|ms|s)\b( ± [^\n]*)?", "TIME"),
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?", "DATE"),
]


def normal(value):
    if isinstance(value, str):
        for pattern, replacement in NORMAL:
            value = re.sub(pattern, replacement, value)
        return value
    if isinstance(value, list):
        return [normal(v) for v in value]
    if isinstance(value, dict):
        return {k: normal(v) for k, v in value.items()}
    return value


def terminal(text):
    lines = []
    for line in text.split("\n"):
        shown, at = [], 0
        for char in line:
            if char == "\r":
                at = 0
            elif char == "\b":
                at = max(at - 1, 0)
            else:
                shown[at:at + 1] = [char]
                at += 1
        lines.append("".join(shown))
    return "\n".join(lines)


def joined(outputs):
    out = []
    for o in outputs:
        o = json.loads(json.dumps(o))
        last = out[-1] if out else {}
        if o["output_type"] == "stream" and last.get("output_type") == "stream" and last["name"] == o["name"]:
            last["text"] += o["text"]
        else:
            out.append(o)
    for o in out:
        if o["output_type"] == "stream":
            o["text"] = terminal(o["text"])
    return normal(out)


source, result = sys.argv[1:]
def valid(notebook):
    try:
        nbformat.validate(notebook)
    except nbformat.ValidationError as e:
        return str(e)
    return ""


ours = nbformat.read(result, as_version=nbformat.NO_CONVERT)
theirs = nbformat.read(source, as_version=nbformat.NO_CONVERT)
if not valid(theirs) and valid(ours):
    sys.exit("not valid: " + valid(ours))
NotebookClient(theirs, kernel_name="python3", allow_errors=True, timeout=120, record_timing=False).execute()

problems = []
if len(ours.cells) != len(theirs.cells):
    problems.append("%d cells, %d in the oracle" % (len(ours.cells), len(theirs.cells)))
for i, (a, b) in enumerate(zip(ours.cells, theirs.cells)):
    if a.cell_type != "code":
        if a != b:
            problems.append("cell %d is another one" % i)
        continue
    if a.source != b.source or a.metadata != b.metadata:
        problems.append("source or metadata of cell %d" % i)
    if a.execution_count != b.execution_count:
        problems.append("cell %d has count %s, %s in the oracle" % (i, a.execution_count, b.execution_count))
    if joined(a.outputs) != joined(b.outputs):
        problems.append("cell %d shows\n%s\nin the oracle\n%s" % (
            i, json.dumps(joined(a.outputs), indent=1)[:2000], json.dumps(joined(b.outputs), indent=1)[:2000]))
print("\n".join(problems), end="")
