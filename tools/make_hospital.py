"""Make ``skprivate/datasets/data/hospital.csv.xz`` from the table of diabetic inpatients (UCI 296).

    python tools/make_hospital.py path/to/diabetes130_hospital.parquet

Needs pandas and pyarrow. The subset is chosen by patient, by a fixed rule that looks at nothing but the patient's
number: whole patients whose CRC-32 of the number is divisible by four.
"""

import sys
import zlib

import pandas as pd
from _embedded import write_table

#: New names of the columns, in their order.
COLUMNS = {
    "patient_nbr": "patient",
    "age": "age",
    "weight": "weight",
    "time_in_hospital": "days",
    "num_lab_procedures": "lab_procedures",
    "num_procedures": "procedures",
    "num_medications": "medications",
    "number_outpatient": "outpatient_visits",
    "number_emergency": "emergency_visits",
    "number_inpatient": "inpatient_visits",
    "number_diagnoses": "diagnoses",
    "gender": "gender",
    "race": "race",
    "admission_type_id": "admission",
    "medical_specialty": "specialty",
    "A1Cresult": "a1c",
    "insulin": "insulin",
    "diabetesMed": "diabetes_drug",
    "readmitted": "readmitted",
}
#: Codes 5, 6 and 8 mean that the kind of admission is not known.
ADMISSIONS = {1: "emergency", 2: "urgent", 3: "elective", 4: "newborn", 7: "trauma"}


def hospital_frame(source: str) -> pd.DataFrame:
    """All encounters, with the columns of the embedded subset.

    Parameters
    ----------
    source : path of the Parquet file

    Returns
    -------
    frame : DataFrame
        ``patient`` holds the numbers of the source.
    """
    frame = pd.read_parquet(source)[list(COLUMNS)].rename(columns=COLUMNS)
    frame["age"] = middle(frame["age"])
    frame["weight"] = middle(frame["weight"])
    frame["admission"] = frame["admission"].map(ADMISSIONS)
    frame["a1c"] = frame["a1c"].replace("None", "?")
    texts = ["gender", "race", "admission", "specialty", "a1c", "insulin", "diabetes_drug", "readmitted"]
    frame[texts] = frame[texts].astype(object).replace(["?", "Unknown/Invalid"], None)
    return frame


def middle(brackets: pd.Series) -> pd.Series:
    """Middle of brackets such as "[70-80)"; 212 for the open one ">200", NaN for "?"."""
    ends = brackets.astype(str).str.extract(r"\[(\d+)-(\d+)\)").astype(float)
    return ends.mean(axis=1).mask(brackets == ">200", 212.0)


def main(source: str) -> None:
    frame = hospital_frame(source)
    frame = frame[[zlib.crc32(str(number).encode()) % 4 == 0 for number in frame["patient"]]]
    frame = frame.sort_values("patient", kind="stable")
    frame["patient"] = pd.factorize(frame["patient"])[0]
    write_table("hospital", frame.to_csv(index=False, lineterminator="\n", float_format="%g"))


if __name__ == "__main__":
    main(sys.argv[1])
