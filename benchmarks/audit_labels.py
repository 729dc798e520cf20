"""Theorems 2 and 3: the predicted labels of linear models audited for a protected attribute (Adult).

python benchmarks/audit_labels.py --data DIR
"""

import numpy as np
from _audit_picture import AuditDisplay
from _common import parse_args, require_data, save_figure, write_table
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skprivate.audit import FiniteAdversaryAuditor
from skprivate.papers.auditing import theorem_bound


def models(X, target):
    """Three linear models: of the income, of an attribute the income says little about, of the attribute's
    proxy."""
    text = X.select_dtypes(exclude="number").columns.tolist()
    numbers = X.select_dtypes(include="number").columns.tolist()
    columns = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), text), (StandardScaler(), numbers))
    return make_pipeline(columns, LogisticRegression(max_iter=300)).fit(X, target)


if __name__ == "__main__":
    import matplotlib.pyplot as plt
    import pandas as pd

    args = parse_args(__doc__.splitlines()[0])
    table = pd.read_parquet(require_data(args, "adult.parquet"))
    table.columns = [name.strip().lower() for name in table.columns]
    gender = (table["gender"].astype(str).str.strip() == "Male").to_numpy().astype(int)
    race = (table["race"].astype(str).str.strip() == "White").to_numpy().astype(int)
    income = table["income"].astype(str).str.contains(">50K").to_numpy().astype(int)
    features = table.drop(columns=["gender", "race", "income"])
    features = features.loc[:, [name for name in features if features[name].nunique() < 10_000]]
    without_proxy = features.drop(
        columns=[c for c in features if c in ("relationship", "marital-status", "marital.status")]
    )
    rng = np.random.default_rng(0)
    train, test = train_test_split(np.arange(len(table)), test_size=0.5, random_state=0)
    income_model = models(features.iloc[train], income[train])
    blind_model = models(without_proxy.iloc[train], income[train])
    predicted = income_model.predict(features.iloc[test])
    blind = blind_model.predict(without_proxy.iloc[test])
    flipped = np.where(rng.random(test.size) < 0.4, rng.integers(0, 2, test.size), blind)
    relationship = features["relationship"].astype(str).str.strip().to_numpy()[test]
    rows, audits, names = [], [], []
    # The audit passes if no attack beats the constant guess by more than two points of advantage in ten.
    for name, labels, attribute in (
        ("income model, gender", predicted, gender[test]),
        ("income model without family columns, gender", blind, gender[test]),
        ("the same, 40 % of labels randomised, gender", flipped, gender[test]),
        ("income model, race", predicted, race[test]),
        ("relationship column itself, gender", relationship, gender[test]),
    ):
        for loss in ("squared", "log"):
            paper = theorem_bound(labels, attribute, loss=loss, confidence=0.95)
            ours = FiniteAdversaryAuditor(loss=loss, confidence=0.95).fit(labels, attribute)
            rows.append(
                [
                    name,
                    loss,
                    ours.empirical_loss_,
                    paper.loss_lower_bound,
                    ours.loss_lower_bound_,
                    ours.empirical_accuracy_,
                    ours.accuracy_upper_bound_,
                    ours.advantage_upper_bound_,
                    "pass" if ours.advantage_upper_bound_ <= 0.25 else "fail",
                ]
            )
            if loss == "squared":
                half = len(labels) // 2
                fitted = FiniteAdversaryAuditor(confidence=0.95).fit(labels[:half], attribute[:half])
                audits.append(AuditDisplay.from_estimator(fitted, labels[half:], attribute[half:], name=name))
                names.append(name)
    columns = [
        "outputs, attribute",
        "loss",
        "empirical",
        "Theorem 2/3",
        "sharper",
        "accuracy",
        "accuracy ≤",
        "advantage ≤",
        "verdict",
    ]
    write_table("audit_labels", columns, rows)
    display = AuditDisplay(
        labels=names,
        achieved=np.concatenate([a.achieved for a in audits]),
        achieved_low=np.concatenate([a.achieved_low for a in audits]),
        limit=np.concatenate([a.limit for a in audits]),
    ).plot()
    save_figure(display.figure_, "audit_labels")
    plt.close(display.figure_)
