"""How often a private search evaluates is its secret: nothing that anybody sees depends on it."""

from __future__ import annotations

import logging
import re
import sys
import warnings
from unittest import mock

import numpy as np
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import VotingClassifier
from sklearn.pipeline import make_pipeline

from skprivate import PPMHalfspaceClassifier, UserLevelSGDClassifier
from skprivate.cli import main
from skprivate.model_selection import PrivateSearchCV
from skprivate.preprocessing import PrivateStandardScaler, PublicScaler
from skprivate.privacy import PrivacyLedger, Repetitions, public_generator
from skprivate.report import privacy_report

RNG = public_generator(0)
X = RNG.uniform(size=(120, 2))
Y = (X[:, 0] > 0.5).astype(int)
LOG = logging.getLogger("somebody.else")


class Chatty(TransformerMixin, BaseEstimator):
    """Says in every way that it was fitted, and that it transforms: while it is fitted and while it is scored."""

    looks_at_no_data = True

    def __init__(self, verbose=0):
        self.verbose = verbose

    def fit(self, X, y=None):
        """Say so."""
        self._say("fit")
        return self

    def transform(self, X):
        """Say so."""
        self._say("transform")
        return X

    def _say(self, what):
        print(what)
        print(what, file=sys.stderr)
        LOG.critical(what)
        logging.warning(what)
        warnings.warn(what, stacklevel=1)
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.warn(what, stacklevel=1)
        assert not self.verbose


class Records(logging.Handler):
    """Keeps what is logged."""

    def __init__(self):
        super().__init__()
        self.said = []

    def emit(self, record):
        self.said.append((record.name, record.getMessage()))


class Callback:
    """Keeps what it is told."""

    def __init__(self):
        self.told = []

    def setup(self, estimator, context):
        self.told.append("setup")

    def teardown(self, estimator, context):
        self.told.append("teardown")

    def on_fit_begin(self, *args, **kwargs):
        self.told.append("fit begins")

    def on_fit_task_begin(self, *args, **kwargs):
        self.told.append("task begins")

    def on_fit_task_end(self, *args, **kwargs):
        self.told.append("task ends")
        return False

    def on_fit_end(self, *args, **kwargs):
        self.told.append("fit ends")

    def __sklearn_clone__(self):
        return self

    def __deepcopy__(self, memo):
        return self


def label():
    return UserLevelSGDClassifier(classes=[0, 1], max_iter=2)


CANDIDATES = {
    "one step": label(),
    "pipeline": make_pipeline(Chatty(verbose=3), label(), verbose=True),
    "columns": make_pipeline(
        ColumnTransformer([("a", Chatty(), [0]), ("b", PrivateStandardScaler(0.2), [1])], n_jobs=2, verbose=True),
        label(),
    ),
    "processes": VotingClassifier([("a", make_pipeline(Chatty(), label())), ("b", label())], n_jobs=2, verbose=True),
    "halfspaces": make_pipeline(Chatty(), PPMHalfspaceClassifier(private_label=1, strategy="greedy")),
}


def heard(model, n_evaluations, capfd, tmp_path, **options):
    """Everything that five listeners hear of a search, and its entry in the ledger."""
    file = tmp_path / f"{n_evaluations}.ledger"
    ledger = PrivacyLedger(file, epsilon=99.0, delta=1e-2)
    search = PrivateSearchCV(model, {}, epsilon=2.0, n_iter=3, ledger=ledger, **options)
    parts, own = Callback(), Callback()
    for part in (model, *(step for _, step in getattr(model, "steps", []))):
        if hasattr(part, "set_callbacks"):
            part.set_callbacks(parts)
        else:
            part._skl_callbacks = [parts]
    if hasattr(search, "set_callbacks"):
        search.set_callbacks(own)
    records = Records()
    logging.root.addHandler(records)
    level = logging.root.level
    logging.root.setLevel(logging.NOTSET)
    capfd.readouterr()
    try:
        with (
            mock.patch.object(Repetitions, "sample", lambda self, source: n_evaluations),
            warnings.catch_warnings(record=True) as seen,
        ):
            warnings.simplefilter("always")
            search.fit(X, Y)
    finally:
        logging.root.removeHandler(records)
        logging.root.setLevel(level)
    assert logging.root.manager.disable == 0
    said = [(str(one.category), str(one.message)) for one in seen]
    return (capfd.readouterr(), records.said, said, parts.told, own.told), file


@pytest.mark.take_turns(9)
@pytest.mark.parametrize("predict_by", ["unit", "batch"])
@pytest.mark.parametrize("name", CANDIDATES)
def test_nothing_that_is_heard_depends_on_how_often_a_search_evaluates(name, predict_by, capfd, tmp_path):
    found = []
    for n_evaluations in (1, 4):
        all_heard, file = heard(CANDIDATES[name], n_evaluations, capfd, tmp_path, predict_by=predict_by)
        found.append(all_heard)
        (entry,) = PrivacyLedger(file, epsilon=99.0, delta=1e-2).entries()
        assert entry.closed == entry.opened
    assert found[0] == found[1]
    output, logged, warned, *_ = found[0]
    assert not output.out and not output.err
    assert not [one for one in logged if one[0] in ("root", "somebody.else")]
    assert not [one for one in warned if one[1] in ("fit", "transform")]


def test_an_evaluation_that_fails_says_nothing_but_its_error(capfd, tmp_path):
    class Fails(Chatty):
        looks_at_no_data = True

        def transform(self, X):
            super().transform(X)
            raise ValueError("always")

    for n_evaluations in (1, 3):
        with (
            mock.patch.object(Repetitions, "sample", lambda self, source, n=n_evaluations: n),
            warnings.catch_warnings(record=True) as seen,
            pytest.raises(ValueError, match="always"),
        ):
            warnings.simplefilter("always")
            PrivateSearchCV(make_pipeline(Fails(), label()), {}, n_iter=3).fit(X, Y)
        assert capfd.readouterr() == ("", "") and not seen
    assert logging.root.manager.disable == 0


def test_searches_in_threads_give_back_what_they_silence():
    from concurrent.futures import ThreadPoolExecutor

    out, shown = sys.stdout, warnings.showwarning
    model = make_pipeline(Chatty(), label())
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda _: PrivateSearchCV(model, {}, n_iter=2).fit(X, Y), range(3)))
    assert sys.stdout is out and warnings.showwarning is shown and logging.root.manager.disable == 0


def test_nothing_that_is_published_has_a_time_of_day(tmp_path, capsys):
    """The entry after a search would tell how long that took; so would its own, and that of a reservation for it."""
    file = tmp_path / "a.ledger"
    ledger = PrivacyLedger(file, epsilon=99.0, delta=1e-2, unit="row", adjacency="replace-one")
    PrivateSearchCV(label(), {}, n_iter=2, ledger=ledger).fit(X, Y)
    with ledger.reserve(3.0, 1e-4) as part:
        PrivateSearchCV(label(), {}, n_iter=2, refit=0.5, ledger=part).fit(X, Y)
    label().set_params(ledger=ledger).fit(X, Y)
    for format in ("csv", "json", "jsonl"):
        main(["ledger", "export", str(file), "--format", format])
    main(["ledger", "show", str(file)])
    report = privacy_report(ledger)
    with ledger._book.transaction(write=False) as (journal, _):
        kept = "".join(one.text for one in journal.since(0))  # the seal, which is published, is a hash of it
    shown = [capsys.readouterr().out, report.to_json(), str(report.to_dict()), report.to_html()]
    for said in (*shown, ledger._repr_html_(), ledger.to_frame().to_csv(), kept):
        assert ledger.entries()[0].opened in said
        assert not re.search(r"\d\d:\d\d", said)


def test_times_of_earlier_versions_are_not_shown(monkeypatch):
    """A journal that has them is read, and shows days."""
    monkeypatch.setattr("skprivate.privacy.ledger._entries.today", lambda: "2026-02-03T04:05:06.789+00:00")
    ledger = PrivacyLedger(epsilon=99.0, delta=1e-2, unit="row", adjacency="replace-one")
    label().set_params(ledger=ledger).fit(X, Y)
    (entry,) = ledger.entries()
    assert (entry.opened, entry.closed) == ("2026-02-03", "2026-02-03")


def test_what_a_search_steps_over_is_not_handed_back_to_it():
    """Parameters of the best model are those of a silent one."""
    model = make_pipeline(PublicScaler(), label(), verbose=True)
    best = PrivateSearchCV(model, {}, n_iter=1).fit(X, Y).best_estimator_
    assert best.verbose is False and model.verbose is True
    assert not any(hasattr(part, "_skl_callbacks") for part in (best, *best))


def test_noise_of_warnings_is_not_left_on():
    PrivateSearchCV(label(), {}, n_iter=1).fit(X, Y)
    with pytest.warns(UserWarning, match="still heard"):
        warnings.warn("still heard", stacklevel=1)
    assert np.geterr()["invalid"] == "warn"
