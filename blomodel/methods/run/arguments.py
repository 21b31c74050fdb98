"""The arguments that ``solve()`` has for every method: their checks, and their names elsewhere.

People come with the words of cvxpy, SciPy, scikit-learn and of solvers. A word that is known to mean one
of ours is met with ours.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from blomodel.basics.registry import nearest, plain_word
from blomodel.errors import UnknownSettingError

# Arguments of solve() that belong to no method.
GENERAL = (
    "method",
    "verbose",
    "time_limit",
    "max_iterations",
    "tolerance",
    "optimality_gap",
    "seed",
    "n_jobs",
    "solver",
    "solver_opts",
    "warm_start",
    "callback",
    "history_every",
)

MOST_VERBOSE = 2

# Our name, and what it is called elsewhere, without case, dashes and underscores.
ELSEWHERE: dict[str, str] = {
    "tolerance": "tol eps epsilon xtol ftol gtol ctol atol rtol abstol reltol feastol epsabs epsrel "
    "accuracy precision tolfun tolx tolerances",
    "optimality_gap": "mipgap relgap absgap gaptol epsgap miprelgap gap",
    "max_iterations": "maxiter maxiters maxit niter niters iterations iters numiters iterationlimit "
    "maxfev maxeval nepochs epochs maxsteps itermax ntrials",
    "time_limit": "timeout maxtime timelimit maxseconds tilim walltime timelim maxcputime budget",
    "seed": "randomstate rng randomseed",
    "n_jobs": "nworkers threads nthreads workers processes njob parallel ncores",
    "solver": "backend engine optimizer optimiser innersolver lowersolver",
    "solver_opts": "options solveroptions opts solverargs solverkwargs solverparams",
    "method": "algorithm algo strategy mode",
    "callback": "callbacks hook monitor onstep",
    "history_every": "recordevery logevery historyfreq savehistory recordhistory printevery",
    "warm_start": "warmstart warm reuse",
    "verbose": "printlevel disp display verbosity loglevel log quiet silent",
}
OWN_NAME = {word: name for name, words in ELSEWHERE.items() for word in words.split()}

# What has no argument here, and what to do instead.
INSTEAD: dict[str, str] = {
    "x0": "set x.value before solve(): the variables' values are where a solve begins",
    "start": "set x.value before solve(): the variables' values are where a solve begins",
    "initialpoint": "set x.value before solve(): the variables' values are where a solve begins",
    "init": "set x.value before solve(): the variables' values are where a solve begins",
    "learningrate": "auto chooses its steps itself; first-order methods take step_x and step_y",
    "lr": "auto chooses its steps itself; first-order methods take step_x and step_y",
    "stepsize": "auto chooses its steps itself; first-order methods take step_x and step_y",
    "bigm": "no big-M is needed here: complementarity is branched on",
    "bounds": "state bounds as constraints, such as [0 <= x, x <= 1]",
    "constraints": "pass constraints to bm.BilevelProblem(...) and bm.Lower(...)",
    "gp": "this argument of cvxpy has no meaning here",
    "qcp": "this argument of cvxpy has no meaning here",
    "nlp": "this argument of cvxpy has no meaning here: nonlinear levels are solved without it",
    "enforcedpp": "this argument of cvxpy has no meaning here: data may enter in any way",
    "ignoredpp": "this argument of cvxpy has no meaning here: data may enter in any way",
    "requiresgrad": "for derivatives of the value see problem.sensitivity() after solve()",
    "canonbackend": "this argument of cvxpy has no meaning here",
}


def unknown_word(
    method: str,
    word: str,
    words: dict[str, str],
    owners: Callable[[str], Sequence[str]],
    general: Iterable[str] = GENERAL,
) -> str:
    """What to say about a setting that a method does not have.

    Parameters
    ----------
    method : str
        As messages call it.
    words : dict
        The names of its settings, each with the setting that it means.
    owners : callable
        The methods that do have a setting of this name.
    general : iterable of str
        What every method takes.
    """
    no_such = f"{method} has no setting {word!r}"
    plain = plain_word(word)
    is_own_word = plain in {plain_word(own) for own in words}  # written another way
    if plain in OWN_NAME and not is_own_word:
        return f"{no_such}: here it is called {OWN_NAME[plain]!r}, as in solve({OWN_NAME[plain]}=...)."
    if plain in INSTEAD and not is_own_word:
        return f"{no_such}: {INSTEAD[plain]}."
    others = [] if is_own_word else list(owners(word))
    if others:
        many = "the method" if len(others) == 1 else "the methods"
        shown = ", ".join(others[:6]) + (", ..." if len(others) > 6 else "")
        needs = "; auto chooses such things itself" if method == "auto" else ""
        return f"{no_such}: it is a setting of {many} {shown}, as in solve(method={others[0]!r}){needs}."
    like = nearest(word, [*words, *general])
    suggestion = ""
    if like is not None:
        is_alias = words.get(like, like) != like
        suggestion = (
            f"; did you mean {like!r}{f', another name of {words[like]!r}' if is_alias else ''}?"
        )
    own = ", ".join(dict.fromkeys(words.values())) or "none"
    end = suggestion or "."
    return f"{no_such}{end} Settings of {method}: {own}; of solve(): {', '.join(general)}."


def check_number(name: str, value: Any, what: str, *, is_whole: bool = False) -> None:
    """Refuse what is no number, or no whole one; ``what`` says what it must be."""
    kind = numbers.Integral if is_whole else numbers.Real
    if not isinstance(value, kind) or isinstance(value, bool | np.bool_) or value != value:
        raise UnknownSettingError(f"{name} = {value!r} does not fit; it must be {what}.")


def check_switch(name: str, value: Any) -> bool:
    """The value, refused where it is neither true nor false."""
    if not isinstance(value, bool | np.bool_):
        raise UnknownSettingError(f"{name} = {value!r} does not fit; it must be True or False.")
    return bool(value)


def check_verbosity(verbose: Any) -> int:
    """The level of what is shown: 0 nothing, 1 a live line, 2 every step."""
    if isinstance(verbose, bool | np.bool_):
        return int(verbose)
    if not isinstance(verbose, numbers.Integral) or not 0 <= int(verbose) <= MOST_VERBOSE:
        raise UnknownSettingError(
            f"verbose = {verbose!r} does not fit; it must be False or 0 (silent), True or 1 (a line "
            "that tells the best point so far), or 2 (what will be tried, and every step)."
        )
    return int(verbose)


def check_arguments(
    *,
    time_limit: Any,
    max_iterations: Any,
    tolerance: Any,
    optimality_gap: Any,
    seed: Any,
    callback: Any = None,
    history_every: Any = None,
) -> None:
    """Refuse values of solve()'s own arguments that cannot be meant."""
    check_number("tolerance", tolerance, "a positive number such as 1e-6")
    if not tolerance > 0:
        raise UnknownSettingError(f"tolerance = {tolerance!r} must be positive.")
    check_number("optimality_gap", optimality_gap, "a number such as 1e-4")
    if not optimality_gap >= 0:
        raise UnknownSettingError(f"optimality_gap = {optimality_gap!r} must not be negative.")
    if time_limit is not None:
        check_number("time_limit", time_limit, "a number of seconds, or None for no limit")
        if not time_limit > 0:
            raise UnknownSettingError(f"time_limit = {time_limit!r} must be positive seconds or None.")
    if max_iterations is not None:
        check_number(
            "max_iterations", max_iterations, "a whole number, or None for no limit", is_whole=True
        )
        if max_iterations < 1:
            raise UnknownSettingError(f"max_iterations = {max_iterations!r} must be at least 1 or None.")
    if callback is not None and not callable(callback):
        raise UnknownSettingError(
            f"callback = {callback!r} does not fit; it must be a function of one argument, the state of "
            "the run, that may return True to stop it."
        )
    if history_every is not None:
        check_number("history_every", history_every, "a whole number of iterations", is_whole=True)
        if history_every < 1:
            raise UnknownSettingError(f"history_every = {history_every!r} must be at least 1 or None.")
    check_number("seed", seed, "a whole number", is_whole=True)
    if seed < 0:
        raise UnknownSettingError(f"seed = {seed!r} must not be negative.")
