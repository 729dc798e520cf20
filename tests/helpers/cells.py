"""Cells of feature sets, and of their rows."""

from skprivate.aggregate.tables._cells import count_keys, make_cells


def index_cells(codes, n_codes, columns, *, min_size=1):
    """Make the cells of a feature set, the cell of every row, and the rows of every cell."""
    index, counts = make_cells(count_keys(codes, n_codes, columns), n_codes, columns, min_size=min_size)
    return index, index.locate(codes), counts
