"""The command line as a whole: dispatch, exit statuses, and input of every bad kind."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kvdocs as package
from kvdocs.cli import main, output, parser, reference
from tests.cli_runner import ROOT, spawn

LLAMA = {
    "model_type": "llama",
    "num_hidden_layers": 32,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 131072,
}
READERS = [
    ("size",),
    ("fit", "--gpu", "h100"),
    ("explain",),
    ("explain", "-", "--config"),
    ("replay",),
    ("fit", "llama-3.1-8b", "--gpu", "h100", "--weights-bytes"),
]
"""Every place where a file is expected, as the last word."""


@pytest.fixture
def llama(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA))
    return str(path)


class TestDispatch:
    def test_help_names_every_command_and_every_exit_status(self, kvdocs):
        status, out, err = kvdocs("--help")
        assert (status, err) == (0, "")
        assert all(re.search(rf"^  {name} ", out, re.MULTILINE) for name in parser.COMMANDS)
        assert all(
            word in out for word in ("0 done", "2 bad input", "3 the server would not start")
        )

    @pytest.mark.parametrize("name", parser.COMMANDS)
    def test_every_command_explains_itself(self, kvdocs, name):
        status, out, err = kvdocs(name, "--help")
        assert (status, err) == (0, "")
        assert out.startswith(f"usage: kvdocs {name}")

    def test_the_version_is_the_packages(self, kvdocs):
        assert kvdocs("--version") == (0, f"kvdocs {package.__version__}\n", "")

    def test_without_a_command_the_commands_are_named(self, kvdocs):
        assert "size, fit, explain" in kvdocs.refuses()

    def test_a_misspelt_command_is_answered_with_the_nearest(self, kvdocs):
        assert "did you mean explain" in kvdocs.refuses("explian", "x.log")

    def test_a_flag_before_the_command_is_refused(self, kvdocs):
        assert "--json stands where a command is needed" in kvdocs.refuses("--json", "size")

    @pytest.mark.parametrize(
        ("words", "nearest"),
        [
            (("size", "llama-3.1-8b", "--tokns", "5"), "--tokens"),
            (("size", "llama-3.1-8b", "--kv-cache-dtyp", "fp8"), "--kv-cache-dtype"),
            (("explain", "-", "--confg=x"), "--config"),
            (("models", "--jsn"), "--json"),
            (("fit", "llama-3.1-8b", "--gpu", "h100", "--profil", "real"), "--profile"),
            (
                ("fit", "llama-3.1-8b", "--gpu", "h100", "--max-model-length", "5"),
                "--max-model-len",
            ),
        ],
    )
    def test_an_unknown_flag_is_answered_with_the_nearest(self, kvdocs, words, nearest):
        assert f"did you mean {nearest}" in kvdocs.refuses(*words)

    def test_a_flag_is_not_taken_for_a_longer_one_it_begins(self, kvdocs):
        assert "--tok is not a flag" in kvdocs.refuses("size", "llama-3.1-8b", "--tok", "5")

    def test_flags_may_be_written_with_underscores(self, kvdocs):
        with_dashes = kvdocs("size", "llama-3.1-8b", "--kv-cache-dtype", "fp8")
        assert kvdocs("size", "llama-3.1-8b", "--kv_cache_dtype=fp8") == with_dashes

    def test_one_argument_too_many_is_refused(self, kvdocs):
        assert "'again' is one argument too many" in kvdocs.refuses("size", "llama-3.1-8b", "again")

    def test_a_missing_argument_is_named(self, kvdocs):
        assert "CONFIG_OR_MODEL" in kvdocs.refuses("size")

    def test_the_words_of_the_process_are_taken_when_none_are_given(self, capsys, monkeypatch):
        monkeypatch.setattr(sys, "argv", ["kvdocs", "--version"])
        assert main() == 0
        assert capsys.readouterr().out.startswith("kvdocs ")


class TestBadFiles:
    @pytest.mark.parametrize("words", READERS)
    def test_a_folder(self, kvdocs, tmp_path, words):
        assert str(tmp_path.name)[:20] in kvdocs.refuses(
            *words, str(tmp_path), stdin="GPU blocks: 5"
        )

    @pytest.mark.parametrize("words", READERS)
    def test_no_such_file(self, kvdocs, tmp_path, words):
        kvdocs.refuses(*words, str(tmp_path / "absent.json"), stdin="GPU blocks: 5")

    @pytest.mark.parametrize("words", READERS)
    def test_an_empty_file(self, kvdocs, words):
        kvdocs.refuses(*words, os.devnull, stdin="GPU blocks: 5")

    @pytest.mark.parametrize("words", READERS)
    def test_a_binary_file(self, kvdocs, words):
        kvdocs.refuses(*words, sys.executable, stdin="GPU blocks: 5")

    @pytest.mark.parametrize("words", [words for words in READERS if words[0] != "explain"])
    def test_a_file_without_end(self, kvdocs, words):
        kvdocs.refuses(*words[:-1], words[-1], "/dev/zero")

    @pytest.mark.parametrize("words", READERS)
    def test_a_name_that_no_file_can_have(self, kvdocs, words):
        kvdocs.refuses(*words, "a\0b.json", stdin="GPU blocks: 5")
        kvdocs.refuses(*words, "x" * 5000, stdin="GPU blocks: 5")

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
    @pytest.mark.parametrize("words", READERS)
    def test_a_file_without_permission(self, kvdocs, tmp_path, words):
        path = tmp_path / "config.json"
        path.write_text("{}")
        path.chmod(0)
        assert "Permission denied" in kvdocs.refuses(*words, str(path), stdin="GPU blocks: 5")

    @pytest.mark.parametrize("words", [("size",), ("fit", "--gpu", "h100"), ("replay",)])
    def test_json_nested_beyond_all_measure(self, kvdocs, words):
        kvdocs.refuses(*words, "-", stdin=b"[" * 200_000)
        kvdocs.refuses(*words, "-", stdin=b'{"a":' * 200_000)

    def test_a_number_with_more_digits_than_python_reads(self, kvdocs):
        kvdocs.refuses("size", "-", stdin='{"model_type": ' + "9" * 10_000 + "}")
        kvdocs.refuses("replay", "-", stdin='{"requests": ' + "9" * 10_000 + "}")

    def test_a_closed_standard_input(self, monkeypatch, capsys):
        monkeypatch.setattr(sys, "stdin", None)
        assert main(["size", "-"]) == 2
        assert "standard input is closed" in capsys.readouterr().err

    def test_standard_input_is_not_read_twice(self, kvdocs):
        message = "standard input can be read only once"
        assert message in kvdocs.refuses("explain", "-", "--config", "-")
        assert message in kvdocs.refuses("fit", "-", "--gpu", "h100", "--weights-bytes", "-")

    def test_control_characters_of_a_name_do_not_reach_the_terminal(self, kvdocs):
        assert "\x1b" not in kvdocs.refuses("size", "\x1b[31mred.json")

    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
    @given(data=st.binary(max_size=400))
    def test_no_bytes_on_standard_input_end_in_a_traceback(self, kvdocs, data):
        for words in (("size", "-"), ("fit", "-", "--gpu", "h100"), ("replay", "-")):
            status, _, err = kvdocs(*words, stdin=data)
            assert status == 2, err
            assert err.count("\n") == 1

    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
    @given(words=st.lists(st.text(max_size=12) | st.sampled_from(["-", "--json", "size", "fit"])))
    def test_no_words_end_in_a_traceback(self, kvdocs, words):
        status, _, err = kvdocs("size", *words)
        assert status in {0, 2}, err
        status, _, err = kvdocs("fit", *words)
        assert status in {0, 2, 3}, err

    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
    @given(
        value=st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(
                    st.sampled_from(["id", "at", "prompt", "out", "seed", "n", "ids"]), inner
                )
            ),
            max_leaves=12,
        )
    )
    def test_no_workload_ends_in_a_traceback(self, kvdocs, value):
        workload = json.dumps({"max_steps": 5, "requests": [value]})
        status, _, err = kvdocs("replay", "-", stdin=workload)
        assert status in {0, 2}, err


class TestFaults:
    def test_a_mistake_in_kvdocs_is_one_line_and_status_1(self, kvdocs, monkeypatch):
        monkeypatch.setattr(parser, "run_command", lambda *_: 1 // 0)
        status, out, err = kvdocs("size", "llama-3.1-8b")
        assert (status, out) == (1, "")
        assert "please report it: ZeroDivisionError" in err

    def test_with_kvdocs_debug_its_traceback_is_raised(self, kvdocs, monkeypatch):
        monkeypatch.setattr(parser, "run_command", lambda *_: 1 // 0)
        monkeypatch.setenv("KVDOCS_DEBUG", "1")
        with pytest.raises(ZeroDivisionError):
            kvdocs("size", "llama-3.1-8b")

    def test_ctrl_c_is_status_130_and_silent(self, kvdocs, monkeypatch):
        def interrupt(*_):
            raise KeyboardInterrupt

        monkeypatch.setattr(parser, "run_command", interrupt)
        assert kvdocs("size", "llama-3.1-8b") == (130, "", "")


class TestProcess:
    """What only a process of its own shows."""

    def test_size_as_a_module(self, llama):
        done = spawn("size", llama, "--json", "--tokens", "8192")
        assert (done.returncode, done.stderr) == (0, b"")
        assert json.loads(done.stdout)["kv_bytes_at"] == 8192 * 131072

    def test_the_installed_command_is_the_same_main(self):
        declared = (ROOT / "pyproject.toml").read_text()
        assert 'kvdocs = "kvdocs.cli:main"' in declared

    def test_status_3_for_a_server_that_would_not_start(self):
        done = spawn("fit", "llama-3.1-70b", "--gpu", "lesson", "--json")
        assert (done.returncode, done.stderr) == (3, b"")
        assert json.loads(done.stdout)["starts"] is False

    def test_status_2_and_one_line_for_bad_input(self):
        done = spawn("size", "no-such-model")
        assert (done.returncode, done.stdout) == (2, b"")
        assert done.stderr.count(b"\n") == 1
        assert b"Traceback" not in done.stderr

    def test_a_reader_that_goes_away_is_no_failure_with_a_traceback(self):
        command = f"{sys.executable} -m kvdocs models | head -n 1; exit ${{PIPESTATUS[0]}}"
        done = subprocess.run(
            ["bash", "-c", command], cwd=ROOT, capture_output=True, timeout=60, check=False
        )
        assert done.stderr == b""
        assert done.returncode in {0, 141}  # 0 when the whole table fitted into the pipe

    def test_a_pipe_nobody_reads(self):
        read_end, write_end = os.pipe()
        os.close(read_end)
        done = subprocess.run(
            [sys.executable, "-m", "kvdocs", "gpus"],
            cwd=ROOT,
            stdout=write_end,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
        )
        os.close(write_end)
        assert (done.returncode, done.stderr) == (141, b"")

    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux only")
    def test_a_full_disk_is_one_line(self):
        with open("/dev/full", "wb") as full:  # noqa: PTH123 - a device
            done = subprocess.run(
                [sys.executable, "-m", "kvdocs", "gpus"],
                cwd=ROOT,
                stdout=full,
                stderr=subprocess.PIPE,
                timeout=60,
                check=False,
            )
        assert done.returncode == 2
        assert done.stderr == b"kvdocs gpus: No space left on device\n"

    def test_ctrl_c_while_reading(self):
        code = (
            "import sys\nfrom kvdocs.cli import main\n"
            "print('ready', flush=True)\nsys.exit(main(['size', '-']))"
        )
        waiting = subprocess.Popen(
            [sys.executable, "-c", code],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert waiting.stdout.readline() == b"ready\n"
        time.sleep(0.1)  # from there into main
        waiting.send_signal(signal.SIGINT)
        out, err = waiting.communicate(timeout=30)
        assert (waiting.returncode, out, err) == (130, b"", b"")

    def test_a_locale_without_the_characters_gets_a_question_mark(self):
        plain = {**os.environ, "PYTHONIOENCODING": "ascii"}
        done = spawn("fit", "llama-3.1-8b", "--gpu", "lesson", env=plain)
        assert done.returncode == 0
        assert b"1 ? the lesson's H100" in done.stdout

    def test_no_colours_in_a_pipe(self):
        assert b"\x1b" not in spawn("fit", "llama-3.1-8b", "--gpu", "lesson").stdout

    def test_output_does_not_depend_on_the_terminals_width(self):
        outputs = {
            spawn(*words, env={**os.environ, "COLUMNS": columns}).stdout
            for columns in ("40", "300")
            for words in [("fit", "--help")]
        }
        assert len(outputs) == 1

    def test_help_needs_neither_the_model_nor_the_catalogue(self):
        code = (
            "import sys\nfrom kvdocs.cli import main\nmain(['--help'])\n"
            "heavy = [name for name in sys.modules if name.startswith('kvdocs.')]\n"
            "print(sorted(heavy), file=sys.stderr)"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
        )
        assert done.stderr.strip() == "['kvdocs.cli', 'kvdocs.cli.parser', 'kvdocs.errors']"


class TestOutput:
    def test_a_table_pads_every_cell_to_its_column(self):
        lines = output.table([["a", "1"], ["long", "100"]], header=["n", "v"], align="<>").split(
            "\n"
        )
        assert lines == ["n       v", "----  ---", "a       1", "long  100"]

    def test_colours_on_a_terminal_unless_no_color_is_set(self, monkeypatch):
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.delenv("NO_COLOR", raising=False)
        assert output.bad("x") == "\x1b[31mx\x1b[0m"
        monkeypatch.setenv("NO_COLOR", "1")
        assert output.bad("x") == "x"

    def test_no_colours_on_a_dumb_terminal(self, monkeypatch):
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
        monkeypatch.delenv("NO_COLOR", raising=False)
        monkeypatch.setenv("TERM", "dumb")
        assert output.heading("x") == "x"

    def test_one_line_is_printable_and_bounded(self):
        shown = output.one_line("a\nb\x07" + "c" * 5000)
        assert shown.isprintable()
        assert shown.startswith("a b\\x07c")
        assert len(shown) < 700


class TestReference:
    @pytest.mark.parametrize("name", parser.COMMANDS)
    def test_the_page_has_a_section_for_every_command_with_its_options(self, name):
        page = (ROOT / "docs/reference/cli.md").read_text()
        assert f"## kvdocs {name}\n" in page
        assert f'options_table("{name}")' in page

    def test_the_table_holds_every_flag(self):
        table = reference.options_table("size")
        assert all(
            f"`{flag}" in table
            for flag in parser.command_parser("size").own_flags()
            if flag not in {"-h", "--help"}
        )

    def test_an_example_that_fails_does_not_go_on_the_page(self):
        with pytest.raises(ValueError, match="printed nothing"):
            reference.example("kvdocs size no-such-model")

    def test_an_example_shows_a_status_that_is_not_0(self):
        assert "$ echo $?\n3\n" in reference.example("kvdocs fit llama-3.1-70b --gpu lesson")


def test_models_json_is_the_catalogue(kvdocs):
    figures = json.loads((Path(__file__).parent / "data/catalog_figures.json").read_text())[
        "models"
    ]
    rows = {row["id"]: row for row in kvdocs("models", "--json").document}
    assert set(rows) == {figure["id"] for figure in figures}
    assert rows["meta-llama/Llama-3.1-8B"]["bytes_per_token"] == 131072


def test_models_for_people_is_a_line_a_model(kvdocs):
    out = kvdocs("models").out
    assert len(out.splitlines()) == 2 + len(kvdocs("models", "--json").document)
    assert re.search(
        r"^meta-llama/Llama-3.1-8B +32 full +128 KiB +131,072 +8.03B", out, re.MULTILINE
    )


def test_gpus_json_and_table_agree(kvdocs):
    rows = {row["id"]: row for row in kvdocs("gpus", "--json").document}
    assert rows["lesson-h100-80gb"]["memory_bytes"] == 80_000_000_000
    assert rows["rtx-4090-24gb"]["nvidia_smi_memory_bytes"] == 24564 * 2**20
    printed = kvdocs("gpus").out
    assert len(printed.splitlines()) == 2 + len(rows)
    assert "bf16 (fp16 where there is none)" in printed  # T4 and V100
