"""Sizes at which another way is taken: one table, each entry with its unit and its reason.

Every room reads its limits here, by name (``limits.TREE_PAIRS.allows(n_pairs)``), so that what a
problem's size decides can be seen, quoted and changed in one place. Tolerances and numbers of
iterations are no limits of this kind; they stand beside the algorithm they belong to.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Limit:
    """The largest size for which a way is taken.

    Attributes
    ----------
    value : int
        The largest size that is still allowed.
    unit : str
        What is counted.
    reason : str
        What happens beyond it, and why.
    """

    value: int
    unit: str
    reason: str

    def allows(self, size: float) -> bool:
        """Whether a size is within the limit."""
        return size <= self.value

    def doublings(self, size: float) -> int:
        """How often the limit must be doubled until a size is within it."""
        return math.ceil(math.log2(max(1.0, size / self.value)))

    def __str__(self) -> str:
        return f"{self.value:,} {self.unit}"


# Units

UNIT_OF_EACH_ENTRY = Limit(
    50,
    "entries of a variable",
    "up to it, each entry may have a unit of its own; beyond, all have one, since they are of a kind",
)
SIZES_FROM_HESSIAN = Limit(
    100,
    "variables",
    "beyond it, sizes of variables are read off the diagonal of a Hessian, not off all its entries",
)

# What is compiled

SEPARATE_PARTS = Limit(
    15,
    "summands or rows of the same form",
    "beyond it, they are compiled as one vector, since each alone costs as much as all together",
)

COPIED_CONSTANT = Limit(
    100_000,
    "numbers in a constant",
    "beyond it, tapes read a constant where it lies, since a copy in each of them would fill the memory",
)

WHOLE_FILE = Limit(
    1_000_000, "numbers made of a file", "beyond it, a tape is run a few rows at a time to save memory"
)

WIDE_FILE = Limit(
    100_000_000,
    "numbers that a tape computes from a file with long rows",
    "beyond it, such a tape is run a few rows at a time too; the file is else read where it lies",
)

UNDIVIDED_WORK = Limit(
    100_000,
    "nanoseconds of one thread, about, for a part of an instruction",
    "beyond it, a part may be divided further among threads; below, waking them costs more",
)

STUDIED_CURVATURES = Limit(
    20_000_000,
    "second derivatives of g",
    "beyond it, the certificate does not study a point's neighbourhood, whose derivatives would fill "
    "the memory, and claims no more than that the point is feasible",
)
HESSIAN_PRODUCTS = Limit(
    5 * 10**10,
    "multiplications for a Hessian in y",
    "beyond it, a free quadratic lower level is solved by products with its Hessian alone",
)
TIED_VARIABLES = Limit(
    300,
    "lower variables that a lower variable meets in products with data",
    "beyond it, the factor of a large sparse Hessian fills up: a free lower level is answered by "
    "products with it (a lasso with 12,500 features, a hundred in each sample: 1 s against minutes)",
)
FULL_FACTOR = Limit(
    3000,
    "lower variables, with those that stand for kinks",
    "up to it, a factor that fills up takes about a second, and Clarabel's answers are exact",
)
FEW_LOOKS = Limit(
    10**8,
    "multiplications in f and g",
    "beyond it, sizes of objectives are looked at in few places, since each look takes long",
)

# The plan of auto

TREE_PAIRS = Limit(
    100,
    "complementarity pairs",
    "beyond it, the tree over the KKT pieces seldom ends soon, so that searches from starts go first",
)
TREE_PAIRS_OF_A_STEP = Limit(
    20,
    "complementarity pairs",
    "beyond it, the pieces around a point are searched by moves from one to the next, not by a tree",
)
PIECE_UNKNOWNS = Limit(
    900,
    "unknowns of the KKT conditions",
    "up to it, searches on exact KKT pieces come at the first level; beyond, a level later for each "
    "doubling, as one convex program takes seconds; other pieces, of dense curvature, are left out",
)
FORMULAS_AT_ONCE = Limit(
    20_000,
    "numbers in the formulas of both levels",
    "up to it, global bounds are looked for at the first level; beyond, a level later for each doubling "
    "(two more without a time limit), unless the answer is confirmed by then: proofs are seldom near",
)
BOUNDED_AT_ONCE = Limit(
    100,
    "unknowns of the KKT conditions",
    "up to it, a program of the global bounds takes milliseconds, so that they come at the first level; "
    "beyond, a level later for each doubling (two more without a time limit), unless the answer is "
    "confirmed by then: proofs are seldom near",
)
RELAXED_LAST = Limit(
    100,
    "unknowns of the KKT conditions",
    "up to it, relaxed complementarity comes after the other searches, which take milliseconds there; "
    "beyond, before them",
)
RESCUE_UNKNOWNS = Limit(
    60,
    "unknowns of the KKT conditions",
    "up to it, value-cuts are tried at the first level; beyond, a level later for each doubling, as "
    "their nonlinear programs take long, unless nothing else has found a point",
)
EVERY_SEARCH = Limit(
    30,
    "unknowns of the KKT conditions",
    "up to it, all searches are cheap and run at once; beyond, costly ones wait while descents do well",
)
CHEAP_DESCENTS = Limit(
    1_000_000,
    "products in one evaluation of g",
    "up to it, descents on phi begin at nine starts; beyond, at four, as each evaluation is costly",
)
BOTH_PATHS = Limit(
    30,
    "upper variables",
    "beyond it, a start follows one kind of path only, since starts are no longer cheap",
)
TEN_STARTS = Limit(
    2, "upper variables", "up to it, auto searches from ten starts, since each of them is cheap"
)
SIX_STARTS = Limit(10, "upper variables", "up to it, auto searches from six starts")
THREE_STARTS = Limit(
    30,
    "upper variables",
    "up to it, auto searches from three starts; beyond, from one: each is costly",
)
CONE_PROGRAM_VARIABLES = Limit(
    100,
    "lower variables",
    "beyond it, a cone program takes so long that few are solved: fewer starts, and the reduced penalty "
    "from the end a level later for each doubling",
)
HALTON_SEQUENCE = Limit(
    1000,
    "upper variables",
    "beyond it, scattered starts are random: a Halton sequence is no better there, and its permutations "
    "for 60,000 dimensions take half a minute and gigabytes",
)
SCANNED_WEIGHTS = Limit(
    2,
    "upper variables",
    "up to it, lower answers at spread points choose the starts of a lower level that is costly",
)
SAMPLED_VARIABLES = Limit(
    3,
    "upper variables",
    "up to it, auto looks at phi over the whole range of x; beyond, no sample would fill it",
)
KINK_FREE_VARIABLES = Limit(
    300,
    "kinks and variables of a level",
    "beyond it, kinks get no variables of their own, as each brings two rows with multipliers: loops "
    "with proximal steps and the reduced penalty are faster then, though they prove nothing",
)

# Other methods

UNSEARCHED_PAIRS = Limit(
    12,
    "complementarity pairs",
    "up to it, kkt-mip begins with its tree, which is faster than a search for a first point",
)
KKT_MATRIX = Limit(
    1500,
    "lower variables and rows",
    "beyond it, methods that factorise the dense KKT matrix of the lower level refuse; auto uses sparse "
    "factors instead",
)
SPECTRAL_NORM = Limit(
    500,
    "rows or columns",
    "beyond it, the Frobenius norm stands for the spectral norm, whose dense algebra would take seconds",
)
EIGENVALUES_IN_BLOCC = Limit(
    500, "lower variables", "beyond it, blocc's max-min steps do without the eigenvalues of g"
)
CHEAP_EVALUATION = Limit(
    10**6,
    "multiplications in f and g",
    "beyond it, curvatures are estimated with one digit, since each costs as much as an iteration",
)
WATCHED_POINT = Limit(
    100, "upper variables", "beyond it, the history keeps no x for each step, which would fill memory"
)
ASKED_HISTORY = Limit(
    20_000_000,
    "numbers",
    "beyond it, in all rows together, history_every keeps no more x and y, as that is 160 MB of memory",
)
MEASURED_GAP = Limit(
    300,
    "lower variables and rows",
    "beyond it, the lower gap is not measured during the iterations, since a lower solve is costly",
)

# The lower level and its answers

RANDOM_STARTS_FROM = Limit(
    200,
    "lower variables",
    "beyond it, starts of a nonconvex lower level are random, as a Halton sequence is no better",
)
SCANNED_COORDINATES = Limit(
    30, "lower variables", "beyond it, a lower level that is not convex is not scanned along coordinates"
)
THIRTY_LOWER_STARTS = Limit(
    10, "lower variables", "up to it, a lower level that is not convex is searched from thirty starts"
)
SIXTEEN_LOWER_STARTS = Limit(
    100, "lower variables", "up to it, a lower level that is not convex is searched from sixteen starts"
)
EIGHT_LOWER_STARTS = Limit(
    1000, "lower variables", "up to it, from eight; beyond, from four, since each local search is costly"
)
FITTED_MULTIPLIERS = Limit(
    1000,
    "active lower rows",
    "beyond it, no multipliers are fitted to a lower answer found by local searches",
)
SEQUENTIAL_QUADRATIC = Limit(
    150,
    "lower variables",
    "beyond it, local searches use an augmented Lagrangian, which is cheaper than SLSQP",
)
DENSE_JACOBIAN = Limit(
    5000, "entries", "up to it, a Jacobian is found as a plain matrix, beyond it as a sparse one"
)
DENSE_SPECTRUM = Limit(
    1000, "lower variables", "beyond it, the modulus of strong convexity is not computed"
)
INTERVAL_HESSIAN = Limit(
    60, "lower variables", "beyond it, no interval bound of the Hessian is asked for"
)
SUBSPACE_BASIS = Limit(
    4_000_000,
    "numbers",
    "beyond it, a projection onto an affine subspace goes through a QP, not a dense basis",
)
COMPILED_POLYHEDRON = Limit(
    100_000,
    "numbers in dense rows",
    "beyond it, a projection onto a polyhedron is no part of compiled loops, but a QP for each step",
)
ANSWER_CURVATURE = Limit(
    20_000_000,
    "upper times lower variables and rows",
    "beyond it, the derivative of the lower answer takes too much memory, and descents on phi end "
    "without Newton steps",
)
DENSE_OPTIMALITY_SYSTEM = Limit(
    1500, "unknowns", "beyond it, the lower optimality system is factorised as a sparse matrix"
)
THIN_SYSTEM = Limit(
    120,
    "unknowns",
    "beyond it, an optimality system with few entries, such as that of many followers, is sparse",
)
PLAIN_SYSTEM = Limit(
    60, "variables and rows", "up to it, plain matrices cost less than sparse arrays of the same numbers"
)
REFINED_DENSE_HESSIAN = Limit(
    500,
    "lower variables",
    "beyond it, with a dense Hessian, answers are not refined: Newton steps cost more than a new solve",
)
PLAIN_PRODUCTS = Limit(
    100_000,
    "products in one evaluation",
    "beyond it, quadratic functions are evaluated by their Hessian, found once, where that is smaller",
)
PARAMETER_PER_ENTRY = Limit(
    4000, "entries", "up to it, every entry of a matrix that moves with x gets a parameter of its own"
)
INTERIOR_POINT_PRODUCTS = Limit(
    20_000,
    "products in one evaluation",
    "beyond it, a free smooth lower level goes to Newton's method with conjugate gradients: these "
    "products are nonzeros of the interior point's matrix (100 samples of 64 features and 10 classes: "
    "0.11 s against 1.5 s)",
)
DENSE_CHOLESKY = Limit(
    600, "lower variables", "up to it, convexity is tested by a dense Cholesky factor"
)
DENSE_EIGENVALUE = Limit(
    1200,
    "lower variables",
    "up to it, the smallest eigenvalue comes from the dense spectrum, and vf-idca inverts a Hessian",
)

# Inner solvers

DENSE_ACTIVE_SET = Limit(
    400, "rows and columns", "up to it, the active set method always uses dense algebra"
)
DENSE_ACTIVE_SET_IF_FULL = Limit(
    6000, "rows and columns", "up to it, the active set method is dense where many entries are nonzero"
)
BAND_WIDTH = Limit(
    60,
    "places beside the diagonal",
    "up to it, once ordered, a sparse system is factorised as a band, which has no search for pivots "
    "and orderings (a controller over 80 steps, ten times: 0.01 s against 0.2 s)",
)
ENTRIES_IN_A_BAND = Limit(
    60, "entries of a column, on average", "beyond it, a sparse system has no narrow band"
)
INVERTED_BLOCK = Limit(
    64, "variables of a block", "up to it, the Hessians of stacked blocks are inverted, not factorised"
)
DENSE_PIECE = Limit(
    1500, "rows of the KKT matrix", "up to it, LAPACK is faster on a piece than a sparse LU"
)
COMPACT_MATRIX = Limit(
    100_000, "entries", "up to it, a matrix is kept dense, whose products have less overhead"
)
UNWATCHED_ITERATIONS = Limit(
    30_000,
    "numbers that an iteration factorises",
    "beyond it, Clarabel begins no iteration that would end after a time limit; others take no time",
)
FIRST_FACTORISATION = Limit(
    299, "variables", "beyond it, Clarabel factorises convex programs with faer, which then beats qdldl"
)
INTERIOR_POINT_LP = Limit(
    500, "rows and columns", "beyond it, linear programs go to the simplex method, which is then faster"
)

# The compiler and reformulations

SEPARATE_PRODUCTS = Limit(
    99_999,
    "entries of a matrix",
    "beyond it, products with the same matrix are put together; reading a smaller one twice costs less",
)
DEPENDENCE_WORK = Limit(
    20_000_000,
    "elements of all nodes times variables",
    "beyond it, the structure of dependence is not looked into",
)
SPARSE_DERIVATIVE_WORK = Limit(
    30_000_000,
    "products of entries",
    "beyond it, second derivatives with fixed positions would fill the memory, and are not made",
)
PARTS_FIRST = Limit(
    30,
    "independent problems",
    "beyond it, they are searched together first, since each of them costs a tenth of a second",
)
PARTS = Limit(100, "independent problems", "beyond it, several of them are solved as one")
MEETING_PRODUCTS = Limit(
    1_000_000,
    "products in a product of two matrices of variables",
    "beyond it, all entries of the factors count as tied together",
)
PRODUCT_FACTORS = Limit(
    50, "factors", "beyond it, the gradient of a product is not written factor by factor"
)
CANCELLING_ENTRIES = Limit(
    3_000_000,
    "entries of a dense least-squares problem",
    "beyond it, products with multipliers are not cancelled by complementarity",
)

CURVATURE_SAMPLES = Limit(
    60,
    "variables of a level",
    "beyond it, an x at which the lower level is not convex is looked for at a few points only",
)
BOX_CORNERS = Limit(
    12,
    "lower variables",
    "beyond it, a lower level that is concave over a box is searched from many starts, which branch and "
    "bound confirms, not answered at every corner",
)

# The certificate, explanations and studies

STUDIED_WHEN_PROVEN = Limit(
    400,
    "variables and rows",
    "beyond it, the neighbourhood of a point that a bound proves is not studied, which takes seconds",
)
INTERIOR_POINT_CHECK = Limit(
    300,
    "lower variables and rows, or products for each variable",
    "up to it, the certificate solves the lower level by an interior-point method of its own; beyond, "
    "weak duality proves the answer where the lower level is quadratic and strongly convex, and the "
    "simplex method solves it where it is linear",
)
UNIQUENESS_TEST = Limit(
    500,
    "lower variables",
    "beyond it, whether a lower answer is unique is read off a sparse factor, not off a dense spectrum",
)
CURVED_UNKNOWNS = Limit(
    3000,
    "directions, or unknowns that rows tie together",
    "beyond it, so many directions are judged by products alone, and where rows tie more unknowns "
    "together, positive curvature around a point is not looked for: its basis is dense",
)
CURVED_DIRECTIONS = Limit(
    400,
    "directions",
    "beyond it, the smallest curvature around a point comes from Lanczos' method, not the whole matrix",
)
PIECES_ONE_BY_ONE = Limit(
    64,
    "pieces",
    "beyond it, pieces that meet at a point are tested together only, not one by one: their number "
    "doubles with each pair, and a point that only this test would prove is called stationary",
)
FIXED_MULTIPLIERS = Limit(
    200,
    "linear programs",
    "beyond it, rows that press with each of several lower multipliers are no longer looked for one by "
    "one: those that are left count as pairs, of which the test on pieces tries both sides",
)
ASKED_AGAIN = Limit(
    2000,
    "lower variables and rows",
    "beyond it, ways out to better points are looked for with fewer lower solves, in proportion, and "
    "the least and largest f over the tolerated answers only where the lower answer is settled",
)
FILTERED_CONSTRAINTS = Limit(
    60, "constraints", "beyond it, a conflict is not made irreducible, which takes a solve for each"
)
DENSE_SHADOW = Limit(
    500, "lower variables", "beyond it, the shadow gradient comes from an iterative solver"
)
SENSITIVITY_UNKNOWNS = Limit(
    700,
    "variables and multipliers",
    "beyond it, no derivatives of the value are computed: their linear algebra is dense",
)
UPPER_DUALS = Limit(
    120,
    "variables and lower rows",
    "beyond it, solve() gives upper constraints no dual values: their linear algebra is dense",
)

LIMITS: dict[str, Limit] = {
    name: entry for name, entry in list(globals().items()) if isinstance(entry, Limit)
}
