"""Sizes, durations and figures as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuwire_checks.units import format_seconds, format_size, format_value, parse_duration, parse_size


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [("65536", 65536), (65536, 65536), ("512B", 512), ("8KiB", 8192), ("64 MiB", 64 << 20), ("8GiB", 8 << 30)],
)
def test_sizes_are_binary(text: str | int, size_bytes: int) -> None:
    assert parse_size(text) == size_bytes


@pytest.mark.parametrize("text", ["8G", "8GB", "1.5MiB", "-1", "", "MiB", "8 gib", "0x10"])
def test_an_ambiguous_size_is_refused_with_what_to_write(text: str) -> None:
    with pytest.raises(ValueError, match="is not a size; write bytes or a binary unit"):
        parse_size(text)


@given(st.integers(min_value=0, max_value=1 << 45))
def test_a_printed_size_reads_back_as_itself(size_bytes: int) -> None:
    assert parse_size(format_size(size_bytes)) == size_bytes


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90.0), ("0.5", 0.5), ("45s", 45.0), ("10m", 600.0), ("1h30m", 5400.0), ("1.5m", 90.0)]
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "ten", "10x", "m", "10m!", "-5"])
def test_a_text_that_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration; write seconds or units"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["0", "0s", "0m"])
def test_a_duration_of_nothing_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a positive duration"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(412e-6, "412 us"), (5.1e-6, "5.10 us"), (0.0213, "21.3 ms"), (1.57, "1.57 s"), (61.2, "61.2 s")],
)
def test_seconds_come_in_the_unit_a_person_would_say(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text


def test_a_figure_is_never_in_scientific_notation() -> None:
    assert format_value(0.000123, "GB/s") == "0.000123 GB/s"
    assert format_value(123456.7, "us") == "123457 us"
    assert format_value(99.96, "GB/s") == "100 GB/s"
    assert format_seconds(0.0) == "0 us"
