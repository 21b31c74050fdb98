"""The literature's problems as ready models, the papers' examples and random families.

``bm.problems.list()`` is a table of all that have a name, ``bm.problems.load(name)`` states one of them.
"""

from blomodel.problems.catalogue import Catalogue as Catalogue
from blomodel.problems.catalogue import Facts as Facts
from blomodel.problems.catalogue import KnownProblem as KnownProblem
from blomodel.problems.catalogue import facts as facts
from blomodel.problems.catalogue import list_problems as list
from blomodel.problems.catalogue import load as load

__all__ = ["Catalogue", "Facts", "KnownProblem", "facts", "list", "load"]
