"""
Private logistic regression from a CSV file
===========================================

A census file has texts, dates and gaps, and one row for each person. The result is a classifier that may be
published, with a guarantee for every person in the file. The rows are those of Adult, which are public.
"""

import warnings
from io import StringIO

import matplotlib.pyplot as plt
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skprivate import SimulatedNoiseWarning, UserLevelSGDClassifier, guarantee_of, make_private_pipeline
from skprivate.datasets import load_adult

# %%
# Adult has ages and no dates of birth, so the dates in this file are made from the ages.
adult = load_adult(as_frame=True).frame
days = 365 * adult.pop("age") + adult.index % 365
adult["born"] = pd.Timestamp("1994-04-01") - pd.to_timedelta(days, unit="D")
file = StringIO(adult.to_csv(index_label="person"))
table = pd.read_csv(file, na_values="?", parse_dates=["born"])  # or the path of your file
print(table[["born", "education", "occupation", "hours_per_week", "income"]].sample(5, random_state=1))

# %%
# The schema states what is known without looking at the rows: limits of numbers and lists of texts. Missing and
# unlisted texts are one class. The pipeline prepares all columns within one budget.
schema = {
    "born": "date",
    "education": ["HS-grad", "Some-college", "Bachelors", "Masters", "Doctorate", "Prof-school"],
    "marital_status": ["Married-civ-spouse", "Never-married", "Divorced"],
    "occupation": ["Adm-clerical", "Craft-repair", "Exec-managerial", "Prof-specialty", "Sales"],
    "hours_per_week": (0, 100),
}
X, y, test = table[list(schema)], table["income"] == ">50K", table["person"] % 5 == 0
classifier = UserLevelSGDClassifier(classes=[False, True])
model = make_private_pipeline(classifier, schema, epsilon=1.0).fit(X[~test], y[~test])
print(guarantee_of(model))

# %%
# The cost of privacy, beside scikit-learn on the same columns. Scores of private rows have no noise and may not be
# published. An integer ``random_state`` makes a simulation, which protects nobody.
warnings.simplefilter("ignore", SimulatedNoiseWarning)


def auc(model, X=X):
    return roc_auc_score(y[test], model.fit(X[~test], y[~test]).decision_function(X[test]))


texts = OneHotEncoder(handle_unknown="ignore")
columns = make_column_transformer((StandardScaler(), ["born", "hours_per_week"]), remainder=texts)
usual = auc(make_pipeline(columns, LogisticRegression()), X.assign(born=X["born"].dt.year))
models = [make_private_pipeline(classifier.set_params(random_state=seed), schema) for seed in range(3)]
scores = [[auc(model.set_params(epsilon=epsilon)) for model in models] for epsilon in (0.03, 0.1, 1.0)]
plt.plot(["ε = 0.03", "ε = 0.1", "ε = 1"], scores, "C0o", alpha=0.6, label=["three private fits", None, None])
plt.axhline(usual, color="black", ls="--", label="scikit-learn without privacy")
plt.gca().set(ylabel="AUC on 9 769 other people", ylim=(0.8, 0.9), title="High incomes, predicted")
plt.legend(loc="lower right")
plt.show()

# %%
# The guide: :doc:`/quickstart`.
