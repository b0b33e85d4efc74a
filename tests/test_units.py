import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvdocs.errors import UnitError
from kvdocs.units import (
    BYTE_UNITS,
    format_bytes,
    format_gib_as_vllm,
    format_number,
    format_seconds,
    parse_bytes,
    parse_count,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("53.44 GB", 53.44e9),
        ("49.8GiB", 49.8 * 1024**3),
        ("81559 mib", 81559 * 1024**2),
        ("1,024 KiB", 1024**2),
        ("4e9 B", 4e9),
        (" .5 TB ", 0.5e12),
    ],
)
def test_memory_is_read_in_the_unit_it_names(text, expected):
    assert parse_bytes(text) == pytest.approx(expected)


@pytest.mark.parametrize(
    "text", ["", "GB", "12", "12 G", "twelve GB", "1 GB/s", "1e999 GB", "1 2 GB"]
)
def test_memory_without_a_unit_of_bytes_is_refused(text):
    with pytest.raises(UnitError):
        parse_bytes(text)


def test_a_refusal_names_what_was_given_and_what_is_allowed():
    with pytest.raises(UnitError, match=r"'12 G' has the unit 'G'; allowed are B, kB, MB, GB"):
        parse_bytes("12 G")


def test_a_long_paste_is_quoted_only_in_part():
    with pytest.raises(UnitError) as error:
        parse_bytes("9" * 100_000)
    assert len(str(error.value)) < 200


@pytest.mark.parametrize(
    ("text", "expected"),
    [("407,714", 407_714), ("407k", 407_000), ("4e5", 400_000), ("1.5 M", 1_500_000), ("8B", 8e9)],
)
def test_counts_are_read_as_people_write_them(text, expected):
    assert parse_count(text) == expected


@given(st.floats(min_value=0.001, max_value=1e6), st.sampled_from(sorted(BYTE_UNITS)))
def test_what_is_printed_is_read_back(number, unit):
    num_bytes = number * BYTE_UNITS[unit]
    assert parse_bytes(format_bytes(num_bytes, unit, digits=6)) == pytest.approx(
        num_bytes, abs=BYTE_UNITS[unit] * 1e-6
    )


def test_gb_and_gib_are_never_mixed():
    assert format_bytes(72e9, "GB") == "72 GB"
    assert format_bytes(72e9, "GiB") == "67.06 GiB"


def test_vllm_prints_gib_with_at_least_one_decimal():
    # vLLM 0.33.0 logs "50.0" and "5.62" through format_gib
    assert format_gib_as_vllm(50 * 2**30) == "50.0"
    assert format_gib_as_vllm(5.6171875 * 2**30) == "5.62"


def test_numbers_lose_zeros_but_not_digits():
    assert [format_number(value) for value in (100, 1.50, 0.999, 1234567)] == [
        "100",
        "1.5",
        "1",
        "1,234,567",
    ]


def test_durations_use_a_unit_a_person_would():
    assert [format_seconds(s) for s in (2e-6, 0.004, 1.5, 60, 3725)] == [
        "2 µs",
        "4 ms",
        "1.5 s",
        "1 min",
        "62 min 5 s",
    ]
