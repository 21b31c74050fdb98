"""MPS files against HiGHS, which reads them too."""

from __future__ import annotations

import highspy
import numpy as np
import pytest

from blomodel.errors import FileFormatError
from blomodel.files.mps import read_mps, write_mps

FILE = """* a comment
NAME          SMALL ONE
ROWS
 N  COST
 L  CAP
 G  NEED
 E  BAL
 N  OTHER
COLUMNS
    A         COST      1.5         CAP       2
    A         OTHER     9
    MARK1     'MARKER'                 'INTORG'
    B         COST      -1e0        NEED      3
    B         CAP       1.25
    C         BAL       1
    D         BAL       -1          CAP       4
    MARK2     'MARKER'                 'INTEND'
    E         CAP       1           NEED      -1
    F         CAP       1
RHS
    RHS       COST      -7          CAP       10
              NEED      -2          BAL       0.5
RANGES
    RNG       CAP       4           BAL       -2
    RNG       NEED      3
BOUNDS
 UP BND       A         1e30
 UP BND       B         8
 LI BND       D         2
 MI BND       E
 UP BND       E         -1
 FR F
ENDATA
"""


def written(tmp_path, text, name="model.mps"):
    path = tmp_path / name
    path.write_text(text)
    return path


def by_highs(path):
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    assert highs.readModel(str(path)) != highspy.HighsStatus.kError
    lp = highs.getLp()
    matrix, packed = np.zeros((lp.num_row_, lp.num_col_)), lp.a_matrix_
    for j in range(lp.num_col_):
        for k in range(packed.start_[j], packed.start_[j + 1]):
            matrix[packed.index_[k], j] = packed.value_[k]
    return lp, matrix


def assert_same(path):
    ours, (lp, matrix) = read_mps(path), by_highs(path)
    assert ours.columns == list(lp.col_names_)
    assert ours.rows == list(lp.row_names_)
    assert np.array_equal(ours.matrix.toarray(), matrix)
    for mine, theirs in (
        (ours.cost, lp.col_cost_),
        (ours.low, lp.col_lower_),
        (ours.high, lp.col_upper_),
        (ours.row_low, lp.row_lower_),
        (ours.row_high, lp.row_upper_),
    ):
        assert np.array_equal(mine, theirs)
    whole = [kind == highspy.HighsVarType.kInteger for kind in lp.integrality_]
    assert ours.is_integer.tolist() == whole
    assert ours.constant == lp.offset_
    return ours


def test_a_file_with_everything(tmp_path):
    program = assert_same(written(tmp_path, FILE))
    assert program.columns == ["A", "B", "C", "D", "E", "F"]
    assert program.high[2] == 1  # an integer column without bounds
    assert program.high[3] == np.inf
    assert program.constant == 7


def test_what_is_written_reads_the_same(tmp_path):
    program = read_mps(written(tmp_path, FILE))
    again = tmp_path / "again.mps"
    write_mps(program, again, ["a remark"])
    other = assert_same(again)
    for name in ("cost", "low", "high", "row_low", "row_high", "is_integer"):
        assert np.array_equal(getattr(program, name), getattr(other, name)), name
    assert np.array_equal(program.matrix.toarray(), other.matrix.toarray())
    assert (program.constant, program.columns) == (other.constant, other.columns)


@pytest.mark.parametrize("sense", ["OBJSENSE\n    MAX", "OBJSENSE MAXIMIZE"])
def test_sense(tmp_path, sense):
    assert read_mps(written(tmp_path, FILE.replace("ROWS", f"{sense}\nROWS", 1))).is_maximised


@pytest.mark.parametrize(
    ("old", "new", "line", "about"),
    [
        (" G  NEED", " Q  NEED", 6, "N, L, G or E"),
        (" G  NEED", " G  CAP", 6, "second time"),
        ("2\n", "two\n", 10, "'two' is no number"),
        ("2\n", "nan\n", 10, "NaN"),
        ("B         COST      -1e0", "B         LOST      -1e0", 13, "no row 'LOST'"),
        ("'INTEND'", "'THEEND'", 17, "marker"),
        (" UP BND       B", " UP BND       Z", 28, "no column 'Z'"),
        (" MI BND", " XX BND", 30, "'XX' is no kind"),
        ("COLUMNS", "PILLARS", 9, "row is N, L, G or E"),
    ],
)
def test_bad_lines_are_named(tmp_path, old, new, line, about):
    path = written(tmp_path, FILE.replace(old, new, 1))
    with pytest.raises(FileFormatError, match=f"line {line}: .*{about}"):
        read_mps(path)


def test_a_file_that_ends_too_early(tmp_path):
    with pytest.raises(FileFormatError, match="without ENDATA"):
        read_mps(written(tmp_path, FILE[: FILE.index("BOUNDS")]))
    with pytest.raises(FileFormatError, match="cannot be read"):
        read_mps(tmp_path / "none.mps")
    with pytest.raises(FileFormatError, match="no row of kind N"):
        read_mps(written(tmp_path, "NAME\nROWS\n L  A\nCOLUMNS\nRHS\nENDATA\n"))
