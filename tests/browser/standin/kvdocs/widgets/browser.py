"""Answers as the package's own module does."""

import html
import json
import time

START = {"number": "21", "other": "a", "slow": "0", "note": "", "upload": "", "exact": "false"}


def update(name: str, params_json: str) -> str:
    """Double a number; `slow` seconds late; refuse what is no number; fail on 13."""
    params = {**START, **json.loads(params_json)}
    time.sleep(float(params["slow"]))
    if params["number"] == "13":
        return str(1 // 0)
    if not params["number"].isdecimal():
        message = f"{params['number']!r} is not a number from 0 to 100"
        return json.dumps({"html": None, "announce": "", "errors": {"number": message}})
    return json.dumps({"html": picture(name, params), "announce": "Doubled.", "errors": {}})


def picture(name: str, params: dict[str, str]) -> str:
    """Return the widget's content."""
    number, note = params["number"], html.escape(params["note"])
    options = "".join(
        f"<option value={value}{' selected' * (value == params['other'])}>{value}</option>"
        for value in "abc"
    )
    return f"""<p class="kv-status" role="status">Static picture</p>
<p>{name}: <b data-figure="doubled">{2 * int(number)}</b></p>
<p>Other: <i data-figure="other">{params["other"]}</i></p>
<p data-figure="note">{len(params["note"])} {note}</p>
<p>File: <i data-figure="upload">{len(params["upload"])}</i></p>
<p>Exact: <i data-figure="exact">{params["exact"]}</i></p>
<form class="kv-controls" autocomplete="off"><fieldset disabled>
<label>Number <input type="range" name="number" min="0" max="100" value="{number}"></label>
<p class="kv-error" data-error-for="number" hidden></p>
<label>Other <select name="other">{options}</select></label>
<label>Slow <input name="slow" value="{params["slow"]}"></label>
<label>Note <textarea name="note">
{note}</textarea></label>
<label>File <input type="file" name="upload"></label>
<p class="kv-error" data-error-for="upload" hidden></p>
<label>Exact <input type="checkbox" name="exact"{" checked" * (params["exact"] == "true")}></label>
<button type="reset">Start values</button>
</fieldset><p class="kv-error" data-error-for="*" hidden></p></form>
<details><summary>More</summary><p>More.</p></details>"""
