"""vLLM's start-up flags: spellings, units, defaults by version, refusals."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvdocs.errors import FlagError
from kvdocs.flags import ServerFlags, flag_names, human_readable_int, parse_flags


def parse(line: str, **kwargs) -> ServerFlags:
    return parse_flags(shlex.split(line), **kwargs)


@pytest.mark.parametrize(
    "line",
    [
        "vllm serve m --tensor-parallel-size 4",
        "serve m --tensor_parallel_size 4",
        "m --tensor-parallel-size=4",
        "m --tensor_parallel_size=4",
        "m -tp 4",
        "m -tp=4",
        "-tp 4 m",
        "--model m -tp 4",
    ],
)
def test_spellings_of_one_flag_mean_the_same(line):
    assert parse(line) == ServerFlags(model="m", tensor_parallel_size=4)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("8192", 8192),
        ("32k", 32_000),
        ("32K", 32_768),
        ("25.6k", 25_600),
        ("1M", 1 << 20),
        ("2m", 2_000_000),
    ],
)
def test_lengths_take_decimal_and_binary_suffixes(text, value):
    assert human_readable_int(text) == value
    assert parse(f"--max-model-len {text}").max_model_len == value


@pytest.mark.parametrize("text", ["-1", "auto", "AUTO"])
def test_minus_one_asks_for_the_longest_that_fits(text):
    flags = parse(f"--max-model-len {text}")
    assert flags.auto_fit_max_model_len
    assert flags.max_model_len is None


def test_cache_bytes_take_suffixes():
    assert parse("--kv-cache-memory-bytes 4G").kv_cache_memory_bytes == 4 * 2**30
    assert parse("--kv-cache-memory=21474836480").kv_cache_memory_bytes == 21_474_836_480


def test_switches_turn_on_and_off():
    assert not parse("--no-enable-prefix-caching").enable_prefix_caching
    assert not parse("--disable-prefix-caching").enable_prefix_caching
    assert parse("--enable-prefix-caching").enable_prefix_caching
    assert parse("--disable-hybrid-kv-cache-manager").disable_hybrid_kv_cache_manager
    assert not parse("--no-async-scheduling").async_scheduling


def test_flags_without_bearing_on_the_cache_are_kept_apart():
    flags = parse("m --port 8000 --trust-remote-code --served-model-name a b --max-model-len 8k")
    assert flags.max_model_len == 8000
    assert flags.others == ("--port", "--trust-remote-code", "--served-model-name")


@pytest.mark.parametrize(
    ("version", "utilization"),
    [("0.6.3", 0.9), ("0.18.1", 0.9), ("0.20.2", 0.92), ("0.33.0", 0.92), ("v0.11.0", 0.9)],
)
def test_default_share_of_memory_by_version(version, utilization):
    assert parse("m", vllm_version=version).gpu_memory_utilization == utilization


def test_other_defaults_by_version():
    old, new = ServerFlags.for_version("0.6.3"), ServerFlags.for_version("0.33.0")
    assert (old.enable_prefix_caching, new.enable_prefix_caching) == (False, True)
    assert (old.async_scheduling, new.async_scheduling) == (False, True)
    assert new == ServerFlags()


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ("--watermark 0.1", "0.23.0"),
        ("--kv-cache-memory-bytes 1G", "0.9.2"),
        ("--swap-space 4", "0.33.0"),
        ("--kv-offloading-size 8", "0.11.2"),
    ],
)
def test_flag_of_another_version_is_refused(line, version):
    with pytest.raises(FlagError, match="vLLM"):
        parse(line, vllm_version=version)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("--tensor-parallel-siz 2", "did you mean --tensor-parallel-size"),
        ("--max-model-length 8k", "did you mean --max-model-len"),
        ("--xyzzy", "not a flag of vllm serve"),
        ("--max-model-len", "needs a value"),
        ("--max-model-len --port 1", "needs a value"),
        ("--max-model-len 1.5K", "did you mean 1.5k"),
        ("--max-model-len 0", "below 1"),
        ("--max-model-len -5", "not a whole number"),
        ("--gpu-memory-utilization 90", "share of the memory"),
        ("--gpu-memory-utilization 0", "share of the memory"),
        ("--gpu-memory-utilization nan", "out of range"),
        ("--gpu-memory-utilization 0,9", "not a number"),
        ("-tp two", "not a whole number"),
        ("--kv-cache-dtype int8", "int8_per_token_head"),
        ("--block-size 0", "below 1"),
        ("--scheduling-policy lifo", "fcfs and priority"),
        ("--watermark 1", "below 1"),
        ("--dtype float32", "16-bit"),
        ("a b", "stands alone"),
    ],
)
def test_what_the_server_would_not_take_is_refused(line, words):
    with pytest.raises(FlagError, match=words):
        parse(line)


def test_every_named_flag_is_taken():
    values = {
        "--kv-cache-dtype": "fp8",
        "--scheduling-policy": "priority",
        "--gpu-memory-utilization": "0.5",
        "--watermark": "0.5",
        "--mamba-ssm-cache-dtype": "float32",
        "--kv-offloading-backend": "lmcache",
        "--quantization": "awq",
        "--dtype": "half",
    }
    for name in flag_names():
        if name == "--swap-space":
            continue
        if isinstance(getattr(ServerFlags(), name.strip("-").replace("-", "_")), bool):
            parse(name)
        else:
            parse(f"{name} {values.get(name, '2')}")


@given(st.lists(st.sampled_from([*flag_names(), "1", "-1", "0.5", "x", "fp8", "=", "--", "-", ""])))
def test_any_words_are_read_or_refused(words):
    try:
        flags = parse_flags(words)
    except FlagError:
        return
    assert isinstance(flags, ServerFlags)
