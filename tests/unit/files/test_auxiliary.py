"""Auxiliary files of both dialects, and bad ones."""

from __future__ import annotations

import pytest

from blomodel.errors import FileFormatError
from blomodel.files.auxiliary import read_auxiliary, write_auxiliary

OLD = "N 2\nM 1\nLC 1\nLC 3\nLR 0\nLO 4\nLO -2.5\nOS -1\n"
NAMED = "N 2\nM 1\nLC b\nLC d\nLR cap\nLO 4\nLO -2.5\nOS -1\n"
NEW = """@NUMVARS
2
@NUMCONSTRS
1
@VARSBEGIN
b 4
d -2.5
@VARSEND
@CONSTRSBEGIN
cap
@CONSTRSEND
@NAME
small
@MPS
small.mps
"""
COLUMNS, ROWS = ["a", "b", "c", "d"], ["cap", "need"]


def read(tmp_path, text):
    path = tmp_path / "model.aux"
    path.write_text(text)
    return read_auxiliary(path, COLUMNS, ROWS)


@pytest.mark.parametrize("text", [OLD, NAMED, NEW])
def test_both_dialects(tmp_path, text):
    found = read(tmp_path, text)
    assert (found.columns, found.rows, found.costs) == ([1, 3], [0], [4.0, -2.5])
    assert found.is_maximised == (text != NEW)
    assert not found.is_interdiction


def test_what_is_written_reads_the_same(tmp_path):
    found = read(tmp_path, OLD.replace("-2.5", "0.1"))
    found.is_maximised = False
    write_auxiliary(found, tmp_path / "again.aux")
    assert read_auxiliary(tmp_path / "again.aux", COLUMNS, ROWS) == found


@pytest.mark.parametrize(
    ("text", "line", "about"),
    [
        (OLD.replace("LC 3", "LC 4"), 4, "beyond the 4 columns"),
        (OLD.replace("LC 3", "LC 1"), 4, "more than once"),
        (OLD.replace("LC 3", "LC z"), 4, "'z' does not occur"),
        (OLD.replace("LR 0", "LR 2"), 5, "beyond the 2 rows"),
        (OLD.replace("LO 4", "LO four"), 6, "'four' is no number"),
        (OLD.replace("LO 4\n", ""), 6, "2 coefficients of the lower level are announced, and 1"),
        (OLD.replace("N 2", "N 3"), 4, "3 columns of the lower level are announced, and 2"),
        (OLD.replace("OS -1", "OS 2"), 8, "1 .minimise. or -1"),
        (OLD.replace("OS -1", "OX 2"), 8, "a key of"),
        (NEW.replace("d -2.5", "d"), 7, "its coefficient"),
        (NEW.replace("cap\n", "cup\n"), 10, "'cup' does not occur"),
        (NEW.replace("@NAME", "@TITLE"), 13, "@TITLE is no section"),
    ],
)
def test_bad_lines_are_named(tmp_path, text, line, about):
    with pytest.raises(FileFormatError, match=f"line {line}: .*{about}"):
        read(tmp_path, text)


def test_a_file_without_a_lower_level(tmp_path):
    with pytest.raises(FileFormatError, match="names no column"):
        read(tmp_path, "M 1\nLR 0\n")
