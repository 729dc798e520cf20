"""The steps of ``.ci/run`` by hand, in a Python of choice: ``nox -s tests-3.13``, ``nox -l`` lists them."""

import nox

PYTHONS = ["3.11", "3.12", "3.13", "3.14"]
nox.options.sessions = ["tests-3.14", "lint"]


def run(session: nox.Session) -> None:
    """Run the step of the session's name; it makes its environment with the Python of the session."""
    session.run("bash", ".ci/run", session.name.partition("-")[0], external=True)


@nox.session(python=PYTHONS)
def tests(session):
    """Run both commands of the README: the demonstration and the fast tests."""
    run(session)


@nox.session
def slow(session):
    """Run the long statistical tests."""
    run(session)


@nox.session
def coverage(session):
    """Print the coverage of the trusted core."""
    run(session)


@nox.session(python="3.11")
def oldest(session):
    """Test the oldest releases that are admitted."""
    run(session)


@nox.session
def lint(session):
    """Run ruff and mypy."""
    run(session)


@nox.session
def docs(session):
    """Build the site; every warning is an error."""
    run(session)


@nox.session
def wheel(session):
    """Build wheel and sdist into ``dist/`` and run the demonstration from both."""
    run(session)
