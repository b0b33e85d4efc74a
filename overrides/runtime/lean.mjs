/**
 * The package's sources as a page gets them: without docstrings, each line where it was.
 *
 * No page shows them, they are a third of what would be downloaded, and tracebacks count lines.
 */

const LEAN = `
import ast
import json


def docstrings(tree):
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                yield node


def lean(text):
    lines = text.encode().split(b"\\n")
    for node in docstrings(ast.parse(text)):
        first, last = node.lineno - 1, node.end_lineno - 1
        alone = not lines[first][: node.col_offset].strip() and not lines[last][node.end_col_offset :].strip()
        if alone:
            lines[first : last + 1] = [lines[first][: node.col_offset] + b'""', *[b""] * (last - first)]
    return b"\\n".join(lines).decode()


sources = json.loads(sources_json)
json.dumps({name: lean(text) if name.endswith(".py") else text for name, text in sources.items()})
`;

/** Sources by name, each Python file without its docstrings. */
export function withoutDocstrings(pyodide, sources) {
  const globals = pyodide.toPy({ sources_json: JSON.stringify(sources) });
  const lean = JSON.parse(pyodide.runPython(LEAN, { globals, filename: "lean.py" }));
  globals.destroy();
  return lean;
}
