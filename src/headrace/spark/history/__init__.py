"""One table from two places: a topic's history in a table, its tail in the log, read as one.

`headrace load` keeps a topic's records in Delta or Iceberg, as they are. With each batch the table's commit
also says which offsets it holds now (`held`), so that whoever opens the table finds rows and offsets of the
same moment. `format("headrace").option("history", TABLE)` opens it once for a query (`snapshot`), reads what
it holds from its files (`file_rows`), and begins in the log right behind it (`union_offsets`): each record
once, whatever the load, compaction and retention do meanwhile.

    load:    checkpoint's offsets of a batch ─► the table's commit: files, batch number, offsets held
    reader:  snapshot (pinned) ─► [first, end) of each partition from files ─► [end, …) from the log

Offsets mean the same in both places. So a stream's checkpoint does not know of the table, a batch that is
repeated may come from the other place than the first time, and records that retention takes from the log
while they are read come from the table.
"""
