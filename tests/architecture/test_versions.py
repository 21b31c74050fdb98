"""The versions that stand in a file are those of everything that the tests need."""

from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

VERSIONS = Path(__file__).parent.parent / "versions.txt"


def pinned() -> dict[str, str]:
    lines = [line for line in VERSIONS.read_text().splitlines() if not line.startswith("#")]
    return {canonicalize_name(name): version for name, version in (line.split("==") for line in lines)}


def needed(extras: set[str]) -> list[Requirement]:
    """What the package asks for, with some extras, on this machine; extras of its own are followed."""
    found = []
    for text in metadata.requires("blomodel") or []:
        requirement = Requirement(text)
        marker = requirement.marker
        if marker is not None and not any(marker.evaluate({"extra": extra}) for extra in {"", *extras}):
            continue
        if requirement.name == "blomodel":
            found += [more for more in needed(requirement.extras) if "extra" in str(more.marker)]
        else:
            found.append(requirement)
    return found


def test_every_requirement_of_the_tests_has_a_version_that_it_allows() -> None:
    versions = pinned()
    requirements = needed({"test"})
    assert {"pytest", "cvxpy", "scikit-learn", "optuna"} <= {each.name for each in requirements}
    for requirement in requirements:
        version = versions[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(version, prereleases=True), requirement
