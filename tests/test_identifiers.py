"""Who is the same user: exact, by kind, and never because of somebody else."""

from __future__ import annotations

import hashlib
import unicodedata
import uuid

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from helpers.every import every
from hypothesis import given, settings
from hypothesis import strategies as st

from skprivate.model_selection import UserKFold
from skprivate.partitions import Blocks
from skprivate.privacy._identifiers import encode_identifiers, hash_identifiers, identifier_bytes
from skprivate.user_level import UserLevelMean
from skprivate.user_level._problems import encode_users

KINDS = {
    "integer": st.integers(-(2**70), 2**70) | st.sampled_from([2**63 + i for i in range(-2, 4)]),
    "string": st.text(max_size=3) | st.sampled_from(["a", "a\0", "1", "nan", ""]),
    "bytes": st.binary(max_size=3) | st.sampled_from([b"a", b"a\0", b""]),
    "uuid": st.uuids(),
}
one_kind = st.sampled_from(sorted(KINDS)).flatmap(lambda kind: st.lists(KINDS[kind], min_size=1, max_size=12))


def _composed(value):
    return unicodedata.normalize("NFC", value) if isinstance(value, str) else value


def names_of_rows(ids):
    codes, names = encode_identifiers(ids, len(ids))
    assert sorted(set(codes.tolist())) == list(range(len(names)))
    return [identifier_bytes(names)[code] for code in codes]


def test_one_users_identifier_merges_no_others():
    big = [2**63 + i for i in range(6)]
    for encode in (encode_users, encode_identifiers):
        codes, _ = encode([*big, -1], 7)
        assert codes.tolist() == list(range(7))


@settings(deadline=None, max_examples=200)
@given(one_kind.flatmap(lambda ids: st.tuples(st.just(ids), st.permutations(ids), st.integers(0, len(ids)))))
def test_same_user_if_and_only_if_equal_whoever_else_is_there(case):
    ids, shuffled, cut = case
    rows = names_of_rows(ids)
    for i, a in enumerate(ids):
        for j, b in enumerate(ids):
            assert (rows[i] == rows[j]) == (_composed(a) == _composed(b))
    name_of = dict(zip(ids, rows, strict=True))
    assert names_of_rows(shuffled) == [name_of[user] for user in shuffled]
    assert names_of_rows(ids[:cut]) == rows[:cut]
    assert names_of_rows([*ids, ids[0]]) == [*rows, rows[0]]


@given(st.tuples(*(st.lists(KINDS[kind], min_size=1, max_size=4) for kind in sorted(KINDS))))
def test_names_of_different_kinds_differ(lists):
    sets = [set(names_of_rows(ids)) for ids in lists]
    assert sum(map(len, sets)) == len(set().union(*sets))


def test_names_of_the_same_bytes_differ_by_kind():
    payload = b"sixteen letters!"
    number = int.from_bytes(payload, "big")
    lists = [[number], [payload.decode()], [payload], [uuid.UUID(bytes=payload)]]
    lists += [np.array([49], dtype="datetime64[as]"), [49], ["1"], [b"1"]]
    assert len({name for ids in lists for name in names_of_rows(ids)}) == 8


def test_users_are_numbered_by_first_appearance():
    for ids in ([7, 3, 7, 9, 3], np.array([7, 3, 7, 9, 3]), list("bacab"), np.array(list("bacab"))):
        codes, _ = encode_identifiers(ids, 5)
        seen = list(dict.fromkeys(codes.tolist()))
        assert seen == list(range(len(seen)))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", ">i4", "uint32", "int64", ">u8", "uint64", object, list])
def test_width_of_integers_does_not_matter(dtype):
    ids = [3, 1, 3, 100]
    stored = list(ids) if dtype is list else np.array(ids, dtype=dtype)
    assert names_of_rows(stored) == names_of_rows(ids)
    assert names_of_rows([np.int16(3), 1, np.uint64(3), 100]) == names_of_rows(ids)


@pytest.mark.parametrize("unit", ["W", "D", "h", "25s", "ms", "us", "ns"])
def test_unit_of_instants_does_not_matter(unit):
    weeks = np.array(["1969-12-25", "2020-01-02", "1969-12-25"], dtype="datetime64[W]")
    assert names_of_rows(weeks.astype(f"datetime64[{unit}]")) == names_of_rows(weeks)
    assert len(set(names_of_rows(weeks))) == 2


def test_containers_of_strings_agree():
    ids = ["b", "a", "b", "ä"]
    expected = names_of_rows(ids)
    strings = np.dtypes.StringDType()
    for stored in (tuple(ids), np.array(ids), np.array(ids, dtype=object), np.array(ids, dtype=strings)):
        assert names_of_rows(stored) == expected
    assert names_of_rows([np.str_("b"), "a", "b", "ä"]) == expected


def test_data_frames_libraries():
    pd, pl, pa = map(pytest.importorskip, ("pandas", "polars", "pyarrow"))
    words, numbers = ["b", "a", "b"], [2**63 + 1, 2**63 + 2, 2**63 + 1]
    for stored in (
        pd.Series(words, index=[9, 9, 1]),
        pd.Series(words, dtype="string"),
        pd.Series(words, dtype="category"),
        pd.Categorical(words),
        pd.Index(words),
        pd.Series(words, dtype=pd.ArrowDtype(pa.string())),
        pl.Series(words),
        pl.Series(words, dtype=pl.Categorical),
        pl.Series(words, dtype=pl.Enum(["a", "b"])),
        pa.array(words),
        pa.array(words).dictionary_encode(),
        pa.chunked_array([words[:1], words[1:]]),
    ):
        assert names_of_rows(stored) == names_of_rows(words), type(stored)
    for stored in (
        pd.Series(numbers, dtype="uint64"),
        pd.Series(numbers, dtype="UInt64"),
        pd.Series(numbers, dtype="category"),
        pd.Series(numbers, dtype="uint64[pyarrow]"),
        pd.array(numbers, dtype="UInt64"),
        pl.Series(numbers, dtype=pl.UInt64),
        pa.array(numbers, type=pa.uint64()),
    ):
        assert names_of_rows(stored) == names_of_rows(numbers), type(stored)
    days = pd.Series(pd.to_datetime(["2020-01-02", "2020-01-03", "2020-01-02"]))
    assert names_of_rows(days) == names_of_rows(days.to_numpy().astype("datetime64[D]"))
    identifiers = [uuid.UUID(int=7), uuid.UUID(int=8), uuid.UUID(int=7)]
    assert names_of_rows(pd.Series(identifiers)) == names_of_rows(identifiers)
    for missing in (
        pd.Series([1, None, 2], dtype="Int64"),
        pd.Series([1.0, None, 2.0]),
        pd.Series(["a", None, "b"]),
        pd.array(["a", pd.NA, "b"], dtype="string"),
        pd.Categorical(["a", None, "b"]),
        pd.Series([1, None, 2], dtype="int64[pyarrow]"),
        pd.to_datetime(["2020-01-02", None, "2020-01-03"]),
        pl.Series([1, None, 2]),
        pl.Series(["a", None, "b"]),
        pa.array([1, None, 2]),
        pa.array(["a", None, "b"]),
        pa.chunked_array([["a"], [None, "b"]]),
        [1, pd.NA, 2],
        np.array(["a", pd.NA, "b"], dtype=object),
        [pd.NaT, "a", "b"],
    ):
        with pytest.raises(ValueError, match="missing"):
            encode_identifiers(missing, 3)


@every(
    ("ids", "error", "text"),
    [
        ([1, "1", 2], TypeError, "type int and str"),
        ([1, 2.0, 3], TypeError, "type float and int.*convert identifiers to integers or strings"),
        (["a", float("nan"), "b"], ValueError, "missing"),
        (["a", np.float32("nan"), "b"], ValueError, "missing"),
        ([1, True, 2], TypeError, "type bool and int"),
        ([b"a", "a", "b"], TypeError, "type bytes and str"),
        ([True, False, True], TypeError, "type bool"),
        (np.array([True, False, True]), TypeError, "type bool"),
        (np.array([1.0, 2.0, 3.0]), TypeError, "type float64.*convert"),
        ([1j, 2j, 3j], TypeError, "type complex"),
        (np.array([1, 2, 3], dtype="timedelta64[D]"), TypeError, "timedelta64"),
        (np.array(["2020", "2021", "2022"], dtype="datetime64[Y]"), TypeError, r"datetime64\[Y\]"),
        (np.ma.array([1, 2, 3], mask=[0, 1, 0]), ValueError, "missing"),
        ([1, np.ma.masked, 3], ValueError, "missing"),
        ([1, None, 3], ValueError, "missing"),
        ([np.datetime64("NaT"), 1, 2], ValueError, "missing"),
        (np.array([[1], [2], [3]]), ValueError, "one-dimensional, got an array of 2"),
        (np.array(5), ValueError, "one-dimensional, got an array of 0"),
        ([(1, 2), (3, 4), (5, 6)], ValueError, "one-dimensional"),
        ([1, 2], ValueError, "2 entries for 3 rows"),
        ("abc", TypeError, "object of type str"),
        ({1, 2, 3}, TypeError, "object of type set"),
        (iter([1, 2, 3]), TypeError, "list_iterator"),
        (7, TypeError, "object of type int"),
    ],
)
def test_what_names_no_user_is_refused(ids, error, text):
    with pytest.raises(error, match=f"^user_ids .*{text}"):
        encode_identifiers(ids, 3)


def test_messages_show_no_identifier():
    for ids in (["Ann Other", 77777], ["Ann Other", None], ["Ann Other"], [["Ann Other"], ["x"]], [7.7777, 1.0]):
        with pytest.raises((TypeError, ValueError)) as caught:
            encode_identifiers(ids, 2)
        assert "Ann" not in str(caught.value) and "7777" not in str(caught.value)


def test_an_unmasked_array_is_welcome():
    assert encode_identifiers(np.ma.array([4, 5, 4]), 3)[0].tolist() == [0, 1, 0]


def test_subclasses_count_by_value():
    class Odd(str):
        def __eq__(self, other):
            return True

        __hash__ = str.__hash__

        def __str__(self):
            return "same"

    assert encode_identifiers([Odd("a"), Odd("b")], 2)[1].tolist() == ["a", "b"]


def test_hash_is_blake2b_of_the_canonical_name():
    _, names = encode_identifiers(["ä", "b"], 2)
    expected = [
        int.from_bytes(hashlib.blake2b(b"string:" + s.encode(), digest_size=8, key=b"k").digest(), "big")
        for s in ("ä", "b")
    ]
    assert hash_identifiers(names, b"k").tolist() == expected
    assert identifier_bytes(np.array([0, 127, 128, -128, -129]))[1:3] == [b"integer:\x7f", b"integer:\x00\x80"]


FORMS = [unicodedata.normalize(form, f"Zoë Ångström {i}") for i in range(4) for form in ("NFC", "NFD")]
CONTAINERS = {
    "list": list,
    "fixed width": np.array,
    "objects": lambda ids: np.array(ids, dtype=object),
    "StringDType": lambda ids: np.array(ids, dtype=np.dtypes.StringDType()),
    "pandas": pd.Series,
    "pandas category": lambda ids: pd.Series(ids, dtype="category"),
    "pandas index": pd.Index,
    "pandas Arrow": lambda ids: pd.Series(ids, dtype="string[pyarrow]"),
    "polars": pl.Series,
    "polars category": lambda ids: pl.Series(ids, dtype=pl.Categorical),
    "pyarrow": pa.array,
    "pyarrow chunks": lambda ids: pa.chunked_array([ids[:3], ids[3:]]),
}


@pytest.mark.parametrize("container", CONTAINERS)
def test_a_name_in_two_unicode_forms_is_one_user(container):
    ids = CONTAINERS[container](FORMS)
    codes, names = encode_identifiers(ids, 8)
    assert codes.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert names.tolist() == FORMS[::2]
    alone = encode_identifiers(CONTAINERS[container](FORMS[1:2]), 1)[1]
    assert identifier_bytes(alone) == identifier_bytes(names)[:1]  # whoever else is there


def test_two_unicode_forms_in_two_blocks_and_folds_are_one_user():
    frames = [pd.DataFrame({"x": np.arange(4.0), "who": FORMS[k::2]}) for k in (0, 1)]
    with pytest.warns(UserWarning):
        model = UserLevelMean(50.0, random_state=0).fit(Blocks(frames), user_ids="who")
    assert model.n_users_ == 4
    rows = pd.concat(frames)
    for train, test in UserKFold(3).split(rows, user_ids=rows["who"]):
        assert not {row % 4 for row in train.tolist()} & {row % 4 for row in test.tolist()}


MOMENTS = pd.to_datetime(["2024-03-31 00:30", "2024-03-31 01:30", "2024-03-31 00:30", "1969-07-20 20:17"])
ZONED = {
    "pandas": lambda zone: pd.Series(MOMENTS.tz_localize("UTC").tz_convert(zone)),
    "pandas index": lambda zone: MOMENTS.tz_localize("UTC").tz_convert(zone),
    "pandas seconds": lambda zone: pd.Series(MOMENTS.as_unit("s").tz_localize("UTC").tz_convert(zone)),
    "pandas Arrow": lambda zone: pd.Series(MOMENTS).astype(pd.ArrowDtype(pa.timestamp("us", tz=zone))),
    "polars": lambda zone: pl.Series(MOMENTS.to_numpy()).dt.replace_time_zone("UTC").dt.convert_time_zone(zone),
    "pyarrow": lambda zone: pa.array(MOMENTS.to_numpy().astype("M8[ms]")).cast(pa.timestamp("ms", tz=zone)),
}


@every("zone", ["UTC", "Europe/Berlin", "America/St_Johns"])
@pytest.mark.parametrize("container", ZONED)
def test_times_with_a_zone_are_their_instants(container, zone):
    ids = ZONED[container](zone)
    assert names_of_rows(ids) == names_of_rows(MOMENTS.to_numpy())
    if container == "pandas":
        with pytest.raises(ValueError, match="missing entries"):
            encode_identifiers(ids.where([True, False, True, True]), 4)


def test_trailing_zeros_of_polars_strings_stay():
    codes, names = encode_identifiers(pl.Series(["a\0", "a", "a\0"]), 3)
    assert codes.tolist() == [0, 1, 0] and names.tolist() == ["a\0", "a"]


def test_categories_are_identifiers_where_no_entry_is_missing():
    values = [7, 7, 3]
    assert names_of_rows(pd.Series(pd.Categorical(values))) == names_of_rows(values)
    for wrong in ([7, None, 3], ["a", None, "b"]):
        for ids in (pd.Categorical(wrong), pd.Series(pd.Categorical(wrong)), pd.CategoricalIndex(wrong)):
            with pytest.raises(ValueError, match="user_ids must name a user for every row"):
                encode_identifiers(ids, 3)


def test_integers_of_128_bits_are_identifiers():
    values = [2**100, 2**100 + 1, 5, 2**100]
    assert names_of_rows(pl.Series(values, dtype=pl.Int128)) == names_of_rows(values)
    with pytest.raises(ValueError, match="missing entries"):
        encode_identifiers(pl.Series([1, None], dtype=pl.Int128), 2)


def test_an_index_of_several_levels_names_nobody():
    index = pd.MultiIndex.from_tuples([(1, "a"), (2, "a")])
    with pytest.raises(TypeError, match="user_ids must have one entry per row, got an index of 2 levels"):
        encode_identifiers(index, 2)
    assert names_of_rows(index.get_level_values(0)) == names_of_rows([1, 2])
