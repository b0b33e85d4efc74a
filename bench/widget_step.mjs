/** Times widget updates in Pyodide, restored from the built snapshot as a reader's browser does. */

import { readFileSync } from "node:fs";
import { gunzipSync } from "node:zlib";

import { packageSources } from "../overrides/runtime/files.mjs";
import { startRestored } from "../overrides/runtime/snapshot.mjs";

const ROOT = new URL("../", import.meta.url).pathname;
const SCRIPT = `
import json
from js import process
from kvdocs.widgets.browser import update
from kvdocs.widgets.registry import WIDGETS
from kvdocs.widgets.controls import Choice, Range, Steps
from kvdocs.widgets.timeline import Timeline

def cpu_ms():
    """Processor time so far: others on the machine do not count."""
    used = process.cpuUsage()
    return (used.user + used.system) / 1000

def settings(control):
    if isinstance(control, Range):
        count = 8
        span = control.maximum - control.minimum
        steps = [round(span / control.step * part / count) for part in range(count + 1)]
        return [f"{control.minimum + step * control.step:g}" for step in steps]
    if isinstance(control, Steps):
        return [str(value) for value in control.values]
    return [value for value, _ in control.options] if isinstance(control, Choice) else []

def session(name):
    widget = WIDGETS[name]
    times = {"play": [], "scrub": [], "change": []}
    state = widget.start

    def step(kind, **params):
        nonlocal state
        start = cpu_ms()
        answer = update(name, json.dumps(params), json.dumps(state))
        times[kind].append(cpu_ms() - start)
        state = json.loads(answer).get("state", state)

    timeline = next((c for c in widget.controls if isinstance(c, Timeline)), None)
    if timeline:
        for moment in range(timeline.minimum, timeline.maximum + 1, timeline.frame):
            step("play", **{timeline.name: str(moment)})
        for moment in range(timeline.maximum, timeline.minimum, -max(1, timeline.maximum // 40)):
            step("scrub", **{timeline.name: str(moment)})
    for control in widget.controls:
        if control is not timeline:
            for value in settings(control):
                step("change", **{control.name: value})
    return times

def sessions(names):
    return json.dumps({name: session(name) for name in names or WIDGETS})
`;

const snapshot = gunzipSync(readFileSync(`${ROOT}build/browser/pyodide/snapshot.bin.gz`));
const pyodide = await startRestored(snapshot, packageSources(ROOT));
pyodide.runPython(SCRIPT);
const names = pyodide.toPy(process.argv.slice(2));
process.stdout.write(pyodide.globals.get("sessions")(names), () => process.exit(0));
