"""Files of a node damaged at random: nothing that was lost is lost without a word.

A node is filled with all that makes files (`contents`): closed segments with all their indexes, a compacted
topic, transactions, a trimmed topic, a tiered one, groups, and a metadata log with snapshots. It is stopped,
in order or with kill -9. Under each seed one file is damaged (`harm`): bits flipped, cut, removed, a block
zeroed, its tail doubled. The node is started again, everything is read with librdkafka and with our own
client and compared with what was there before, and what the node said is read (`verdict`):

    unharmed    all is there, and the file is one that nothing rests on, or has its bytes again; it says which
    mended      all is there, and a line names the file
    fetched     of three replicas: the same, and what was damaged has come from the others
    lost        something is not there, or is not readable, and a line names the partition or file
    refused     the node does not start, and says which file is damaged and what to do, as the doctor does
    SILENT      anything else: the failure that this looks for

    python -m tests.compat.damages --seeds 1..200 [--only KIND ...] [--nodes 1|3] [--folder F]

Odd seeds are clean stops, even ones kills.
"""
