"""Makes the table of atoms of the compiler's tests importable, and names the nonlinear solvers."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent / "compiler"))
sys.path.append(str(Path(__file__).parent))
