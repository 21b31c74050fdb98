"""One vocabulary of settings: every method keeps to it, takes the other names, and checks values."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.errors import UnknownSettingError
from blomodel.methods.run.registry import create_method, method_classes, setting
from blomodel.methods.run.settings import VOCABULARY, Kind, check_settings

SETTINGS = [
    pytest.param(cls, field, id=f"{name}-{field.name}")
    for name, cls in method_classes().items()
    for field in dataclasses.fields(cls)
]
# What the settings of one kind have in common: annotation without None, and the bound that they have.
SHAPES = {
    Kind.STEP: ("float", {"above": 0.0}),
    Kind.COUNT: ("int", {}),
    Kind.WEIGHT: ("float", {"above": 0.0}),
    Kind.RATE: ("float", {}),
    Kind.TOLERANCE: ("float", {"minimum": 0.0}),
    Kind.SWITCH: ("bool", {}),
    Kind.CHOICE: ("str", {}),
}
# The names of earlier versions, which stay valid.
EARLIER = {
    "alt-pbgd f2sa": "gamma step_size inner_step_size inner_steps max_steps",
    "auto": "n_starts",
    "bda": "step_size lower_step upper_step weight lower_steps max_steps",
    "bic-gaffa lv-hba": "step_size step_z step_theta gamma_1 gamma_2 c exponent multiplier_bound "
    "max_steps settled",
    "blocc": "gamma step_size max_steps lower_step multiplier_step lower_steps multiplier_steps",
    "bome": "step_size lower_step lower_steps eta max_steps",
    "galet": "step_size lower_step shadow_step lower_steps shadow_steps keep_shadow shortcut max_steps",
    "gam": "step_size max_steps newton_steps",
    "grid-search": "n_points refinements",
    "iaptt": "step_size start_step lower_step lower_steps max_steps",
    "implicit-cg": "step_size lower_step lower_steps max_steps linear_steps linear_tolerance",
    "implicit-neumann": "step_size lower_step lower_steps max_steps series_step n_terms",
    "jnt-pbgd v-pbgd": "gamma step_size inner_step_size inner_steps restart max_steps stop_at",
    "kkt": "n_starts",
    "kkt-mip": "gap max_nodes",
    "meha": "c p gamma alpha beta eta max_steps",
    "pbgd": "gamma step_size inner_step_size inner_steps restart max_steps stop_at second_step_size",
    "pbgd-free": "gamma step_size inner_step_size inner_steps max_steps",
    "perturbed-gd": "step_size alpha start_accuracy max_steps",
    "random-search": "n_points",
    "reduced-penalty": "gamma_first gamma_last gamma_factor n_starts path_tolerance inner_iterations",
    "unrolled": "step_size lower_step lower_steps keep_y max_steps",
    "value-cuts": "n_starts max_rounds",
}
SWITCHES = {"keep_shadow", "shortcut", "restart"}


def kinds(field):
    return {part.strip() for part in field.type.split("|")}


def a_value(field):
    """Some value that the setting may have, other than its default."""
    if field.metadata["choices"]:
        return next(word for word in field.metadata["choices"] if word != field.default)
    if "bool" in kinds(field):
        return not field.default
    if "str" in kinds(field):
        return "ipopt"
    return 7 if "int" in kinds(field) else 7.5


def check(cls, **given):
    return create_method(cls.name, given)


# The words


@pytest.mark.parametrize(("cls", "field"), SETTINGS)
def test_one_word_measures_one_thing(cls, field):
    if field.metadata["own"]:
        assert field.name not in VOCABULARY
        return
    annotation, bounds = SHAPES[VOCABULARY[field.name].kind]
    assert kinds(field) - {"None", "Schedule"} == {annotation}
    assert all(field.metadata[name] == bound for name, bound in bounds.items())


def test_a_word_of_one_method_is_not_used_by_another():
    meanings = {}
    for cls in method_classes().values():
        for field in dataclasses.fields(cls):
            if field.metadata["own"]:
                meanings.setdefault(field.name, set()).add(field.metadata["meaning"])
    assert {name for name, found in meanings.items() if len(found) > 1} == set()


def test_every_word_is_used():
    used = {field.name for cls in method_classes().values() for field in dataclasses.fields(cls)}
    assert set(VOCABULARY) <= used


def declare(**fields):
    """Declare a method with these settings."""
    annotations = {name: "float" for name in fields} | {"name": ClassVar[str]}
    cls = type("Trial", (), {"__annotations__": annotations, "name": "trial", **fields})
    check_settings(dataclasses.dataclass(frozen=True, kw_only=True)(cls))


def test_a_word_outside_of_the_vocabulary_must_be_declared():
    with pytest.raises(UnknownSettingError, match=r"'stepx' is no word.*'step_x'.*own=True"):
        declare(stepx=setting(1.0, "step"))
    declare(stepx=setting(1.0, "step", own=True))
    declare(step_x=setting(1.0, "step"))


def test_a_common_word_cannot_be_ones_own():
    with pytest.raises(UnknownSettingError, match="'penalty' is a word of all methods"):
        declare(penalty=setting(1.0, "price of a late parcel", own=True))


def test_another_name_cannot_be_a_common_word_or_twice_the_same():
    with pytest.raises(UnknownSettingError, match="'penalty' cannot be a name of 'step_x'"):
        declare(step_x=setting(1.0, "step", aliases=("penalty",)))
    with pytest.raises(UnknownSettingError, match="'s' cannot be a name of 'step_y'"):
        declare(step_x=setting(1.0, "", aliases=("s",)), step_y=setting(1.0, "", aliases=("s",)))


# Other names


@pytest.mark.parametrize(
    ("cls", "field"), [case for case in SETTINGS if case.values[1].metadata["aliases"]]
)
def test_other_names_mean_the_same(cls, field):
    value = a_value(field)
    wanted = check(cls, **{field.name: value})
    assert getattr(wanted, field.name) == value
    for alias in field.metadata["aliases"]:
        assert check(cls, **{alias: value}) == wanted


@pytest.mark.parametrize("name", ["unrolled", "galet"])
def test_a_name_may_mean_the_contrary(name):
    word = {"unrolled": "keep_y", "galet": "keep_shadow"}[name]
    for value in (True, False):
        assert create_method(name, {word: value}) == create_method(name, {"restart": not value})


def test_none_has_no_contrary():
    assert create_method("galet", {"keep_shadow": None}).restart is None


@pytest.mark.parametrize("name", sorted(name for names in EARLIER for name in names.split()))
def test_names_of_earlier_versions_are_valid(name):
    words = next(words for names, words in EARLIER.items() if name in names.split())
    whole = {field.name for field in dataclasses.fields(method_classes()[name]) if "int" in kinds(field)}
    given = {}
    for word in words.split():
        found = next(f for f in SETTINGS if f.values[0].name == name and word in _names(f.values[1]))
        field = found.values[1]
        is_switch = word in SWITCHES or (name, word) == ("unrolled", "keep_y")
        given[word] = True if is_switch else 7 if field.name in whole else 7.5
    create_method(name, given)


def _names(field):
    return (field.name, *field.metadata["aliases"], *field.metadata["opposites"])


def test_a_setting_given_twice_is_refused():
    with pytest.raises(UnknownSettingError, match="'penalty' and 'gamma' are two names of one setting"):
        create_method("alt-pbgd", {"penalty": 1.0, "gamma": 1.0})
    with pytest.raises(UnknownSettingError, match="'eta' and 'step_size'.*'step_x'"):
        create_method("alt-pbgd", {"eta": 1.0, "step_size": 1.0})


def test_suggestions_know_the_other_names():
    with pytest.raises(UnknownSettingError, match="did you mean 'gamma', another name of 'penalty'"):
        create_method("alt-pbgd", {"gama": 1.0})
    with pytest.raises(UnknownSettingError, match="gam has no setting 'penalty'.*alt-pbgd"):
        create_method("gam", {"penalty": 1.0})


def test_the_tables_show_the_other_names():
    info = next(info for info in bm.methods() if info.name == "galet")
    assert info.aliases["step_x"] == ("alpha", "step_size")
    assert info.aliases["restart"] == ("not keep_shadow",)
    assert "step_x = None: step alpha in x; None: adaptive (also alpha, step_size)" in str(info)


# Values


@pytest.mark.parametrize(("cls", "field"), SETTINGS)
def test_values_of_the_wrong_type_are_refused(cls, field):
    for value, wanted in (
        ("many", {"float", "int", "bool"}),
        (True, {"float", "int", "str"}),
        (1, {"bool", "str"}),
        (2.5, {"int", "bool", "str"}),
        (float("nan"), {"float", "int", "bool", "str"}),
        (np.zeros(2), {"float", "int", "bool", "str"}),
    ):
        if not wanted >= kinds(field) - {"None"}:
            continue
        with pytest.raises(UnknownSettingError) as caught:
            check(cls, **{field.name: value})
        assert str(caught.value).startswith(f"{cls.name}: {field.name} = ")
        assert "it must be" in str(caught.value)
        assert ("or None" in str(caught.value)) == ("None" in kinds(field))


@pytest.mark.parametrize(("cls", "field"), SETTINGS)
def test_none_is_for_what_can_be_chosen(cls, field):
    if "None" in kinds(field):
        check(cls, **{field.name: None})
    else:
        with pytest.raises(UnknownSettingError, match="= None is no value; it must be"):
            check(cls, **{field.name: None})


@pytest.mark.parametrize(("cls", "field"), SETTINGS)
def test_bounds_are_kept(cls, field):
    minimum, above = field.metadata["minimum"], field.metadata["above"]
    if minimum is not None:
        check(cls, **{field.name: minimum})
        with pytest.raises(
            UnknownSettingError, match=f"{field.name} = .* it must be at least {minimum:g}"
        ):
            check(cls, **{field.name: minimum - 1})
    if above is not None:
        with pytest.raises(UnknownSettingError, match=f"must be larger than {above:g}"):
            check(cls, **{field.name: above})


@pytest.mark.parametrize(
    ("cls", "field"), [case for case in SETTINGS if case.values[1].metadata["choices"]]
)
def test_choices_are_kept(cls, field):
    for word in field.metadata["choices"]:
        assert getattr(check(cls, **{field.name: word}), field.name) == word
    assert field.default in field.metadata["choices"]
    with pytest.raises(UnknownSettingError, match=f"{field.name} = 'no'.*it must be one of '"):
        check(cls, **{field.name: "no"})


def test_numbers_of_numpy_are_numbers():
    made = create_method("alt-pbgd", {"penalty": np.float32(2), "inner_steps": np.int64(3)})
    assert (made.penalty, made.inner_steps) == (2, 3)
    assert create_method("unrolled", {"restart": np.bool_(True)}).restart


# One word in one table


@pytest.fixture
def problem():
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - x) ** 2), [], variables=[y])
    return bm.BilevelProblem(cp.Minimize((x - 1) ** 2 + y**2), [0 <= x, x <= 2], lower)


def test_compare_gives_a_common_word_to_all(problem):
    names = ["alt-pbgd", "meha", "blocc", "auto"]
    rows = bm.compare(problem, names, penalty=20.0, max_steps=50).rows
    assert [row.error for row in rows] == [""] * 4
    assert [row.settings.get("penalty") for row in rows] == [20.0, 20.0, 20.0, None]


def test_compare_refuses_a_letter_with_two_meanings(problem):
    with pytest.raises(UnknownSettingError, match="'penalty' in alt-pbgd; 'proximal' in meha"):
        bm.compare(problem, ["alt-pbgd", "meha"], gamma=20.0)
    bm.compare(problem, ["alt-pbgd", "blocc"], gamma=20.0, max_steps=5)


def test_compare_lets_one_methods_own_value_win_under_any_name(problem):
    rows = bm.compare(problem, [("blocc", {"gamma": 5.0}), "alt-pbgd"], penalty=20.0, max_steps=5).rows
    assert rows[0].settings == {"max_steps": 5, "gamma": 5.0}
    assert rows[1].settings == {"max_steps": 5, "penalty": 20.0}
