"""The shell's grammar: words, quotes, pipes, and commands in a row."""

import pytest

from kvdocs.errors import TerminalError
from kvdocs.terminal.shell import parse


def words(line: str) -> list[list[str]]:
    return [
        ["".join(part.text for part in word) for word in command.words]
        for pipeline in parse(line)
        for command in pipeline.commands
    ]


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("ls  models\t-l", [["ls", "models", "-l"]]),
        ("echo 'a b' \"c d\" e\\ f", [["echo", "a b", "c d", "e f"]]),
        ("echo 'it'\"'\"'s'", [["echo", "it's"]]),
        ('echo "a \\"b\\" \\n"', [["echo", 'a "b" \\n']]),
        ("a | b|c", [["a"], ["b"], ["c"]]),
        ("a; b && c || d", [["a"], ["b"], ["c"], ["d"]]),
        ("a # the rest; is | a comment", [["a"]]),
        ("echo a#b", [["echo", "a#b"]]),
        ("vllm serve m \\\n  --port 1", [["vllm", "serve", "m", "--port", "1"]]),
        ("a\n\nb", [["a"], ["b"]]),
        ("a |\n b &&\n c", [["a"], ["b"], ["c"]]),
        ("curl 'http://x/?a=1&b=2'", [["curl", "http://x/?a=1&b=2"]]),
        ("vllm serve m 2>&1 | grep KV", [["vllm", "serve", "m"], ["grep", "KV"]]),
        ("", []),
        ("   # only a comment", []),
    ],
)
def test_a_line_becomes_these_words(line, wanted):
    assert words(line) == wanted


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("echo 'a", "a ' is not closed"),
        ('echo "a', 'a " is not closed'),
        ("| b", "missing before |"),
        ("a |", "missing after |"),
        ("a && ; b", "missing before ;"),
        ("a &&", "missing after &&"),
        ("ls > out.txt", "no redirection"),
        ("cat < in.txt", "no redirection"),
        ("ls 2> errors", "no redirection"),
        ("echo $(ls)", "no command inside a command"),
        ("echo `ls`", "no command inside a command"),
        ("a;" * 60, "at most 50 commands"),
        ("x" * 30_000, "30,000 characters are too many"),
    ],
)
def test_what_this_shell_does_not_have_is_named(line, reason):
    with pytest.raises(TerminalError, match=reason.replace("|", "\\|").replace("$", "\\$")):
        parse(line)


def test_an_ampersand_at_the_end_sends_to_the_background():
    first, second = parse("sleep 5 & date")
    assert (first.in_background, second.in_background) == (True, False)


def test_quotes_keep_patterns_and_names_as_they_are():
    (pipeline,) = parse("ls '*' \"$HOME\" *.txt")
    single, double, plain = (word[0] for word in pipeline.commands[0].words[1:])
    assert (single.quoted, single.names) == (True, False)
    assert (double.quoted, double.names) == (True, True)
    assert (plain.quoted, plain.names) == (False, True)
