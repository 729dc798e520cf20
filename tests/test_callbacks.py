"""scikit-learn's callbacks are told of progress in public numbers, and of nothing else."""

import pickle
import subprocess
import sys
import warnings
from threading import Thread

import joblib
import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from test_common import ESTIMATORS

from skprivate import PPMHalfspaceClassifier, UserLevelMean, UserLevelSelector, UserLevelSGDRegressor
from skprivate._sklearn import MOST_STEPS, gather, listening, steps
from skprivate.audit import FiniteAdversaryAuditor, LiRAAttack
from skprivate.base import PRIVACY_CONSTRAINTS, PrivateEstimatorMixin, fit_context
from skprivate.preprocessing import PrivateStandardScaler
from skprivate.privacy import (
    Mechanism,
    PrivacyLedger,
    PureEvent,
    open_branches,
    plan_search,
    public_generator,
    select_repeatedly,
)
from skprivate.utils.estimator_checks import default_data

callback = pytest.importorskip("sklearn.callback", reason="scikit-learn has callbacks from 1.9 on")

pytestmark = pytest.mark.filterwarnings("ignore:.*too few:UserWarning", "ignore:.*[Ss]imulat")

TELLING = [estimator for estimator in ESTIMATORS if hasattr(estimator, "set_callbacks")]
RELEASING = [
    estimator
    for estimator in TELLING
    if isinstance(estimator, PrivateEstimatorMixin) and estimator.releases_in == "fit"
]


class Recorder:
    """Keeps what it is told; ``look`` sees all that is handed over."""

    def __init__(self, look=lambda event, estimator, context: None):
        self.events, self.look = [], look

    def note(self, hook, estimator, context, handed=None):
        assert all(value is None for value in (handed or {}).values()), "data or a model were handed over"
        self.events.append((hook, context.task_name, context.max_subtasks, context.parent is None))
        return self.look(self.events[-1], estimator, context)

    def setup(self, estimator, context):
        self.note("setup", estimator, context)

    def teardown(self, estimator, context):
        self.note("teardown", estimator, context)

    def on_fit_task_begin(self, estimator, context, *, X=None, y=None, metadata=None, fitted_estimator=None):
        self.note("begin", estimator, context, {"X": X, "y": y, "m": metadata, "f": fitted_estimator})

    def on_fit_task_end(self, estimator, context, *, X=None, y=None, metadata=None, fitted_estimator=None):
        return self.note("end", estimator, context, {"X": X, "y": y, "m": metadata, "f": fitted_estimator})

    def numbers(self):
        """{task: (most steps, steps told)}, with everything told in brackets."""
        found, path = {}, []
        for hook, task, most, _ in self.events:
            if hook == "begin":
                if path:
                    path[-1][2] += 1
                path.append([task, most, 0])
            elif hook == "end":
                ended, most, told = path.pop()
                assert ended == task and told <= most
                if most:
                    found.setdefault(task, []).append((most, told))
        assert not path
        return found


class Propagated(Recorder):
    max_propagation_depth = None


def data_of(estimator, n_rows=90, seed=0):
    data = default_data(estimator, public_generator(seed), n_rows)
    return [data.X] if data.y is None else [data.X, data.y], data.metadata


def fit(estimator, seed=0, **more):
    arguments, metadata = data_of(estimator, seed=seed)
    return estimator.fit(*arguments, **metadata, **more)


def simulated(estimator, **parameters):
    if "random_state" in estimator.get_params(deep=False):
        parameters["random_state"] = 0
    return clone(estimator).set_params(**parameters)


def named(estimator):
    return type(estimator).__name__


def state(estimator):
    return {key: value for key, value in vars(estimator).items() if key != "_skl_callbacks"}


class Noise(Mechanism):
    events = ((PureEvent(0.5, "discrete Laplace"), 2),)

    def run(self, data, release):
        return [release.discrete_laplace([len(data)], sensitivity=1, epsilon=0.5) for _ in range(2)]


class Elsewhere(PrivateEstimatorMixin, BaseEstimator):
    """As an estimator of another package may be."""

    _parameter_constraints = {**PRIVACY_CONSTRAINTS, "mechanism": "no_validation"}  # noqa: RUF012

    def __init__(self, epsilon=1.0, *, mechanism=None, random_state=None, ledger=None):
        self.epsilon, self.random_state, self.ledger = epsilon, random_state, ledger
        self.mechanism = mechanism

    @fit_context()
    def fit(self, X):
        mechanism = self.mechanism or Noise()
        with self._releasing(mechanism, unit="row", adjacency="add-remove") as release:
            self.released_ = mechanism.run(X, release)
        return self


# What is told ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", RELEASING, ids=named)
def test_the_planned_number_of_draws_is_told(estimator):
    recorder = Recorder()
    model = fit(simulated(estimator).set_callbacks(recorder))
    planned = sum(count for _, count in model.privacy_guarantee_.events)
    assert recorder.numbers()["release"] == [(planned, planned)]
    assert [event[0] for event in recorder.events].count("setup") == 1
    assert [event[0] for event in recorder.events].count("teardown") == 1
    assert recorder.numbers()["fit"][0][0] == type(estimator)._most_fit_tasks


@pytest.mark.parametrize(
    ("name", "task", "most"),
    [
        ("CuratedBagGAMClassifier", "penalties", 12),
        ("RandomBagClassifier", "likelihood", 6),
        ("FiniteAdversaryAuditor", "half-spaces", 100),
        ("LiRAAttack", "reference models", 16),
        ("RMIAAttack", "reference models", 4),
        ("UserLevelSelector", "candidates", 2),
    ],
)
def test_what_takes_long_beside_the_draws_is_told(name, task, most):
    recorder = Recorder()
    fit(simulated(next(e for e in TELLING if named(e) == name)).set_callbacks(recorder))
    ((found, told),) = recorder.numbers()[task]
    assert found == most and 1 <= told <= most


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_hypotheses_are_told_inside_the_draw_that_they_are_for(n_jobs, monkeypatch):
    monkeypatch.setattr("skprivate.mixture._problem.MOST_SUMS", 100)
    rng = public_generator(0)
    X = rng.normal(size=(60, 2))
    y = np.arange(60) % 2
    recorder = Recorder()
    model = PPMHalfspaceClassifier(private_label=1, strategy="exact", random_state=0, n_jobs=n_jobs).set_callbacks(
        recorder
    )
    model.fit(X, y)
    numbers = recorder.numbers()
    assert numbers["release"] == [(1, 1)] and numbers["fit"] == [(1, 1)]
    ((most, told),) = numbers["hypotheses"]
    assert most == told >= 4


class Branched(Mechanism):
    """Draws on four disjoint parts of the data, for the price of one."""

    theorem = "none"
    events = ((PureEvent(0.1, "discrete Laplace"), 5),)
    n_draws = 4 * 5

    def run(self, data, release):
        for branch in open_branches(release, 4, self.events, fixed_assignment=True):
            for _ in range(5):
                branch.discrete_laplace([0], sensitivity=1, epsilon=0.1)


def test_draws_of_every_branch_are_told():
    recorder = Recorder()
    Elsewhere(random_state=0, mechanism=Branched()).set_callbacks(recorder).fit([[1.0]])
    assert recorder.numbers()["release"] == [(20, 20)]


class Repeated(Mechanism):
    """A selection that repeats as often as a secret number says, and draws after it."""

    search = plan_search(
        lambda epsilon, _: [[(PureEvent(0.1, "discrete Laplace"), 1)]] * 3, epsilon=0.3, mean_repetitions=5.0
    )
    events = (*search.events, (PureEvent(0.01, "discrete Laplace"), 50))

    def __init__(self, recorder):
        self.recorder, self.evaluations = recorder, 0

    def run(self, data, release):
        def evaluate(candidate, branch):
            self.evaluations += 1
            gather("evaluation", 1, [0])
            return float(branch.discrete_laplace([0], sensitivity=1, epsilon=0.1)[0]), None

        select_repeatedly(release, evaluate, self.search)
        self.told = tuple(self.recorder.events)
        for _ in range(50):
            release.discrete_laplace([0], sensitivity=1, epsilon=0.01)


def test_how_often_a_private_selection_repeats_stays_hidden():
    evaluations, told = set(), set()
    for seed in range(20):
        recorder = Recorder()
        mechanism = Repeated(recorder)
        Elsewhere(random_state=seed, mechanism=mechanism).set_callbacks(recorder).fit([[1.0]])
        evaluations.add(mechanism.evaluations)
        told.add(mechanism.told)
    assert len(evaluations) > 5 and len(told) == 1


def test_what_is_told_does_not_depend_on_private_rows():
    for estimator in (UserLevelMean(random_state=0), PrivateStandardScaler(random_state=0)):
        told = set()
        for seed in range(3):
            recorder = Recorder()
            fit(clone(estimator).set_callbacks(recorder), seed)
            told.add(tuple(recorder.events))
        assert len(told) == 1


# What is not -------------------------------------------------------------------------------------------------


def floats_within(*roots):
    """Every float that can be reached from the objects, and the length of every array."""
    seen, todo, floats, lengths = set(), list(roots), set(), set()
    while todo:
        value = todo.pop()
        if id(value) in seen or isinstance(value, type | str | bytes):
            continue
        seen.add(id(value))
        if isinstance(value, float | np.floating):
            floats.add(float(value))
        elif isinstance(value, np.ndarray):
            lengths |= set(value.shape)
            todo += value.ravel().tolist()
        elif isinstance(value, dict):
            todo += [*value.keys(), *value.values()]
        elif isinstance(value, list | tuple | set | frozenset):
            todo += list(value)
        elif not isinstance(value, Recorder):
            todo += list(getattr(value, "__dict__", {}).values())
            slots = [slot for kind in type(value).__mro__ for slot in getattr(kind, "__slots__", ())]
            todo += [getattr(value, slot) for slot in slots if hasattr(value, slot)]
            for cell in getattr(value, "__closure__", None) or ():
                todo.append(cell.cell_contents)
    return floats, lengths


@pytest.mark.parametrize(
    "estimator",
    [pytest.param(one, marks=pytest.mark.slow if isinstance(one, FiniteAdversaryAuditor) else ()) for one in TELLING],
    ids=named,
)
def test_no_row_and_no_half_fitted_model_is_within_reach(estimator):
    arguments, metadata = data_of(estimator, n_rows=97)
    private = {float(value) for array in arguments for value in array.ravel() if value != round(value)}
    looked = []

    def look(event, told, context):
        if event[0] == "end" and event[3]:
            return  # the fit is done
        if event[0] == "teardown":
            return
        floats, lengths = floats_within(told, context)
        assert not floats & private and 97 not in lengths
        fitted = {key for key in vars(told) if key.endswith("_") and not key.startswith("_")}
        # Label sets are public, and guarantees say so.
        released = {"n_features_in_", "feature_names_in_", "classes_", "privacy_guarantee_"}
        assert fitted <= released or not isinstance(told, PrivateEstimatorMixin)
        looked.append(event)

    simulated(estimator).set_callbacks(Recorder(look)).fit(*arguments, **metadata)
    assert looked


def test_the_walk_finds_rows():
    X = public_generator(0).normal(size=(97, 2))

    def closure():
        return X

    for holder in ({"a": [X]}, closure, LinearRegression().fit(X, X[:, 0]).set_params(copy_X=X[3, 0])):
        floats, _ = floats_within(holder)
        assert floats & set(X.ravel().tolist())


def test_a_scoring_monitor_gets_nothing_to_score():
    monitor = callback.ScoringMonitor(scoring="r2")
    fit(UserLevelSGDRegressor(random_state=0).set_callbacks(monitor))
    with pytest.raises(ValueError, match="No logs"):
        monitor.get_logs()


# What it must not change -------------------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", TELLING, ids=named)
def test_results_are_the_same_with_callbacks_and_without(estimator):
    alone = fit(simulated(estimator))
    # Wanting to stop changes nothing, either: a plan is a plan.
    watched = fit(simulated(estimator).set_callbacks(Recorder(lambda *_: True)))
    assert joblib.hash(pickle.dumps(state(alone))) == joblib.hash(pickle.dumps(state(watched)))


def raise_at(number, error):
    count = iter(range(10**6))

    def look(*_):
        if next(count) == number:
            raise error

    return look


@pytest.mark.take_turns(3)
@pytest.mark.parametrize("error", [RuntimeError("stop"), KeyboardInterrupt(), StopIteration()], ids=repr)
@pytest.mark.parametrize("estimator", RELEASING, ids=named)
def test_a_callback_that_raises_leaves_no_fit_and_gets_no_refund(estimator, error):
    recorder = Recorder()
    model = fit(simulated(estimator).set_callbacks(recorder))
    guarantee = model.privacy_guarantee_
    if guarantee.metric is not None:
        budget = {"epsilon": 10.0, "unit": str(guarantee.unit)}
    else:
        budget = {"epsilon": 10.0, "delta": 1e-3, "unit": str(guarantee.unit)}
    drawn = recorder.events.index(("begin", "release", *recorder.numbers()["release"][0][:1], False))
    fitted = next(k for k, event in enumerate(recorder.events) if event[0] == "end" and event[3])
    for at, charged in ((0, False), (1, False), (drawn, True), (drawn + 2, True), (fitted, True)):
        ledger = PrivacyLedger(**budget, composition="basic")
        broken = simulated(estimator, ledger=ledger).set_callbacks(Recorder(raise_at(at, error)))
        before = dict(vars(broken))
        with pytest.raises((type(error), RuntimeError)):
            fit(broken)
        assert vars(broken) == before
        if charged:
            assert ledger.spent[0] == pytest.approx(guarantee.epsilon)
            assert not any(entry.closed for entry in ledger.entries()) or at == fitted
        else:
            assert ledger.spent == (0.0, 0.0) and not ledger.entries()


def test_an_interrupted_refit_keeps_the_model_that_was_paid_for():
    ledger = PrivacyLedger(epsilon=10.0, delta=1e-3, unit="user", composition="basic")
    model = fit(UserLevelSGDRegressor(1.0, random_state=0, ledger=ledger))
    before, spent = dict(vars(model)), ledger.spent[0]
    with pytest.raises(KeyboardInterrupt):
        fit(model.set_callbacks(Recorder(raise_at(6, KeyboardInterrupt()))), seed=1)
    assert state(model) == before
    assert ledger.spent[0] == pytest.approx(2 * spent)


class Watched(dict):
    """Attributes that tell when a parameter is missing."""

    def clear(self):
        super().clear()
        assert "epsilon" in self

    def pop(self, key, *default):
        value = super().pop(key, *default)
        assert "epsilon" in self and "coef_" in self
        return value


def test_while_it_is_put_back_an_estimator_is_whole():
    """Another thread may be predicting, and a second interruption may come before all is back."""
    model = fit(UserLevelSGDRegressor(1.0, random_state=0))
    object.__setattr__(model, "__dict__", Watched(vars(model)))
    before = dict(vars(model))
    with pytest.raises(KeyboardInterrupt):
        fit(model.set_callbacks(Recorder(raise_at(6, KeyboardInterrupt()))), seed=1)
    assert state(model) == before


# Where callbacks meet other estimators -----------------------------------------------------------------------


def test_a_pipeline_tells_the_fits_of_its_steps():
    recorder = Propagated()
    X = public_generator(0).normal(size=(90, 2))
    scaler, regressor = PrivateStandardScaler(random_state=0), UserLevelSGDRegressor(random_state=0)
    pipeline = make_pipeline(scaler, regressor).set_callbacks(recorder)
    recorder.note = lambda hook, estimator, context, handed=None: recorder.events.append(
        (hook, context.task_name, context.estimator_name, None if handed is None else handed["X"] is None)
    )
    pipeline.fit(X, X[:, 0])
    tasks = {(name, task) for _, task, name, _ in recorder.events}
    assert {("PrivateStandardScaler", "release"), ("UserLevelSGDRegressor", "release")} <= tasks
    ours = [event for event in recorder.events if event[2] != "Pipeline"]
    assert all(untold is not False for *_, untold in ours)


class Silent(RegressorMixin, BaseEstimator):
    """Fits a private model inside."""

    def fit(self, X, y):
        self.model_ = UserLevelSGDRegressor(random_state=0).fit(X, y)
        return self

    def predict(self, X):
        return self.model_.predict(X)


def test_fits_within_a_fit_are_not_told_as_its_own():
    X = public_generator(0).normal(size=(60, 2))
    recorder = Recorder()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        LiRAAttack(Silent(), n_references=2, random_state=0).set_callbacks(recorder).fit(X, X[:, 0])
    assert set(recorder.numbers()) == {"fit", "reference models"}


def test_estimators_of_other_packages_tell_their_draws():
    recorder = Recorder()
    Elsewhere().set_callbacks(recorder).fit([[1.0]])
    assert recorder.numbers() == {"release": [(2, 2)], "fit": [(1, 1)]}


@pytest.mark.slow
def test_candidates_are_told_and_chosen_alike_for_every_number_of_jobs():
    rng = public_generator(0)
    X = rng.normal(size=(120, 2))
    models = [(str(k), FrozenEstimator(LinearRegression().fit(X + k, X[:, 0]))) for k in range(3)]
    for by in ("user", "batch"):
        kept = []
        for n_jobs in (None, 1, 2):
            recorder = Recorder()
            selector = UserLevelSelector(models, predict_by=by, random_state=0, n_jobs=n_jobs)
            selector.set_callbacks(recorder).fit(X, X[:, 0], user_ids=np.arange(120) // 3)
            kept.append((selector.best_name_, recorder.events))
        assert kept[0] == kept[1] == kept[2]


@pytest.mark.parametrize("rate", [1, 7])
def test_reference_models_are_the_same_for_every_number_of_jobs(rate):
    X = public_generator(rate).normal(size=(60, 2))
    y = (X[:, 0] > 0).astype(int)
    attacks = [
        simulated(next(e for e in TELLING if named(e) == "LiRAAttack"), n_references=4, n_jobs=n_jobs)
        for n_jobs in (None, 2)
    ]
    one, two = (attack.fit(X, y).reference_signals_ for attack in attacks)
    np.testing.assert_array_equal(one, two)


@pytest.mark.slow
def test_without_scikit_learns_callbacks_everything_fits():
    """As before scikit-learn 1.9."""
    program = """
import sys, warnings
import sklearn.pipeline, sklearn.model_selection, sklearn.linear_model
real = sys.modules["sklearn.callback"]
sys.modules["sklearn.callback"] = None
from skprivate import UserLevelMean
sys.modules["sklearn.callback"] = real
warnings.simplefilter("ignore")
mean = UserLevelMean(1.0, random_state=0)
assert not hasattr(mean, "set_callbacks")
mean._skl_callbacks = ["not a callback"]
mean.fit([[1.0], [2.0], [3.0]] * 30)
"""
    subprocess.run([sys.executable, "-c", program], check=True)


# How it is told ----------------------------------------------------------------------------------------------


class Listening:
    """A task as a string: name(steps…)."""

    def __init__(self, log):
        self.log = log

    def begin(self, name, n_steps):
        self.log.append(f"{name}:{n_steps}(")
        return self

    def step(self):
        self.log.append(".")

    def end(self):
        self.log.append(")")


def told(run, n_tasks=1):
    log = []
    with listening(Listening(log), n_tasks):
        run()
    return "".join(log)


def test_many_steps_are_told_as_their_shares():
    def run():
        with steps("many", 10 * MOST_STEPS) as step:
            for _ in range(5 * MOST_STEPS):
                step()
            step(count=4 * MOST_STEPS)

    log = told(run)
    assert log.startswith(f"many:{MOST_STEPS}(") and log.count(".") == MOST_STEPS * 9 // 10


def test_more_steps_than_planned_are_not_told():
    def run():
        with steps("few", 2) as step:
            for _ in range(5):
                step()
                with steps("late", 1):
                    pass
        with steps("second", 3):
            pass

    assert told(run) == "few:2(.late:1()" + ")"


def test_one_task_stands_for_one_step():
    def run():
        with steps("outer", 3) as step:
            assert gather("inner", 2, "ab") == ["a", "b"]
            assert gather("unheard", 2, "ab") == ["a", "b"]
            step()
            step()

    assert told(run) == "outer:3(inner:2(..).)"


def test_tasks_are_told_one_after_the_other():
    def run():
        for name in "abc":
            gather(name, 1, [0])

    assert told(run, n_tasks=2) == "a:1(.)b:1(.)"


def test_nobody_listens_unless_asked():
    with steps("alone", 2) as step:
        step()

    def run():
        with listening(None):
            gather("unheard", 1, [0])
        with steps("none", 0) as step:
            step()

    assert told(run) == ""


def test_threads_may_step():
    def run():
        with steps("threads", 400) as step:
            threads = [Thread(target=lambda: [step() for _ in range(100)]) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

    assert told(run) == "threads:400(" + "." * 400 + ")"


def test_an_error_ends_nothing():
    log = []
    with pytest.raises(ZeroDivisionError), listening(Listening(log)), steps("broken", 2) as step:
        step()
        raise ZeroDivisionError
    assert "".join(log) == "broken:2(."
