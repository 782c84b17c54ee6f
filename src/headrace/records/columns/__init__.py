"""Records as Arrow columns, without a Python object per record: what Spark, pandas and Polars work on.

    schema        the columns, and the door to pyarrow, which is an optional extra
    sections      fetched bytes: which records are to be seen
    decode        records to columns
    arrow_spans   where the values of an Arrow column are
    encode        columns to record batches
    row_fields, row_runs   records to the fields of single records, by the same kernels

No broker imports any of it, and nothing here loads pyarrow or numba before columns are used.
"""
