"""A tree of diagnoses."""

from __future__ import annotations

from sklearn.utils import Bunch

from skprivate.datasets._load import read_csv, read_description


def load_icd10() -> Bunch:
    """Load the upper levels of ICD-10-CM as a tree (taxonomy, an ultrametric).

    ============== ==================================
    Nodes          2 237
    Leaves         1 930
    ============== ==================================

    Returns
    -------
    icd10 : `~sklearn.utils.Bunch`
        parents : dict of str to (str or None)
            Parent of each node, None for the 22 chapters; what `MetricPrivatizer` takes with ``metric="tree"``.
        codes : ndarray of str of shape (1930,)
            The leaves, three-character categories such as ``"E11"`` and twelve blocks without any, in their order.
        descriptions : dict of str to str
            Title of each node.
        DESCR : str
            Where the table comes from.

    Notes
    -----
    From the United States Centers for Disease Control and Prevention; in the public domain. See ``DESCR``.

    Examples
    --------
    >>> from skprivate.datasets import load_icd10
    >>> icd10 = load_icd10()
    >>> icd10.descriptions["E11"], icd10.parents["E11"]
    ('Type 2 diabetes mellitus', 'CH4:E08-E13')
    """
    columns = read_csv("icd10")
    codes, parents = columns["code"].tolist(), columns["parent"].tolist()
    tree = {code: None if parent == "ROOT" else parent for code, parent in zip(codes, parents, strict=True)}
    inner = set(parents)
    return Bunch(
        parents=tree,
        codes=columns["code"][[code not in inner for code in codes]],
        descriptions=dict(zip(codes, columns["description"].tolist(), strict=True)),
        DESCR=read_description("icd10"),
    )
