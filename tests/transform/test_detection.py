"""Which format a payload is in: one rule, of one payload and of many."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.config.decoding import CsvDialect, Format
from tidemark.transform.decode.detect import format_of, formats_of, is_utf8, valid_utf8

J, C, A = Format.JSON, Format.CSV, Format.AVRO
SETS = [(J,), (C,), (A,), (J, C), (J, A), (C, A), (J, C, A)]
PIECES = [b"{", b"}", b"[", b"]", b" ", b"\n", b",", b";", b"a", b"1", b'"', b"\x00", b"\x1f", b"\x7f"]
PIECES += [
    b"\xef\xbb\xbf",
    "é€😀".encode(),
    b"\xc3",
    b"\xa9",
    b"\xed\xa0\xbd",
    b"\xc0\x80",
    b"\xf4\x90\x80\x80",
]


@pytest.mark.parametrize(
    ("payload", "all_three", "json_csv"),
    [
        (b'{"a":1}', J, J),
        (b"\xef\xbb\xbf \n[1]\r\n", J, J),
        (b"1,x", C, C),
        (b"\xef\xbb\xbf1,x\r\n", C, C),
        (b"{1,x", A, J),
        (b"a,{b}", A, None),
        (b"hello", A, None),
        (b"1,\xe9", A, C),
        (b"1,\x01", A, C),
        (b'{"a":"\x01"}', A, J),
        (b"[1],[2]", J, J),
        (b"{", A, J),
        (b"", A, None),
    ],
)
def test_a_format_is_detected_by_the_ends_and_the_delimiter_of_a_payload(
    payload: bytes, all_three: Format, json_csv: Format | None
) -> None:
    assert format_of(payload, (J, C, A), CsvDialect()) == all_three
    assert format_of(payload, (J, C), CsvDialect()) == json_csv


@given(
    st.lists(st.lists(st.sampled_from(PIECES), max_size=7).map(b"".join), max_size=20), st.sampled_from(SETS)
)
def test_many_are_reported_as_one_is(payloads: list[bytes], formats: tuple[Format, ...]) -> None:
    array = pa.array(payloads, pa.binary())
    for delimiter in ",; é":
        dialect = CsvDialect(delimiter=delimiter)
        reported = formats_of(array, formats, dialect).to_pylist()
        assert reported == [format_of(p, formats, dialect) for p in payloads]
    assert valid_utf8(array).to_pylist() == [is_utf8(p) for p in payloads]
