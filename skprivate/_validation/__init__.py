"""Validation of what users give: arrays, tables, labels, bounds."""

from skprivate._validation._arrays import (
    TEXT_ADVICE,
    columns_in_words,
    is_frame,
    learn_columns,
    refuse_elsewhere,
    refuse_other_columns,
    validate_data,
)
from skprivate._validation._bounds import WIDEST, check_bounds, column_label, in_order
from skprivate._validation._labels import (
    ENCODED,
    PUBLIC_LABELS,
    check_classes,
    distinct_labels,
    encode_classes,
    kind_of,
    label_array,
    plain,
    public_labels,
    read_labels,
    read_numbers,
    read_targets,
    together,
    two_or_more,
)
from skprivate._validation._tables import (
    TIME_KINDS,
    all_differ,
    any_table,
    code_numbers,
    column_array,
    column_kinds,
    entries,
    frame_columns,
    in_own_type,
    missing_mask,
    plain_entry,
    refuse_other_kinds,
)
