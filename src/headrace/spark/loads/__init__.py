"""Loads: a feed's backlog in a table of Parquet files, Delta or Iceberg, each record in it once.

Spark's executors write Parquet files of a batch into a folder that no reader looks at (`staging`); then the
driver makes them part of the table in one step that also keeps the batch's number (`tables`). Spark repeats a
batch whose end it did not see, with the same number and the same offsets: the table knows that number, and
nothing is written twice. So data never passes through the driver, and all three formats share the writing:

- Delta: one commit with the files and the application transaction (load, batch number);
- Iceberg: one commit with the files and a table property (load -> batch number);
- Parquet, which has no commits: a manifest of the batch is the decision, after which its files are renamed
  into place; a repeated batch whose manifest is there only finishes the renaming.

A load is named by the id of its streaming query, which lives in the checkpoint: whoever deletes the
checkpoint begins a new load, from the feed's beginning, or where the table ends if it is a history
(`headrace.spark.history`).
"""
