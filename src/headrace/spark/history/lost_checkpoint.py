"""Where a load begins whose checkpoint is gone: the table itself says what it holds."""

import json
import logging
from collections.abc import Mapping
from contextlib import closing

from headrace.clients import OffsetSpec
from headrace.spark.loads.tables import LoadTable
from headrace.spark.offsets import offsets_json, partition_offsets
from headrace.spark.options import read_options

log = logging.getLogger(__name__)


def start_behind(table: LoadTable, options: Mapping[str, str]) -> str | None:
    """`startingOffsets` right behind what the table holds, and at the beginning of partitions that it does
    not have; None where it holds nothing of these topics."""
    with closing(partition_offsets(read_options(options, streaming=True))) as asked:
        partitions = asked.partitions()
    held = table.holdings(partitions).ranges
    if not held:
        return None
    ends = {each: held[each].end if each in held else int(OffsetSpec.EARLIEST) for each in partitions}
    found = json.dumps(offsets_json(ends))
    log.info("there is no checkpoint, but the table holds records: the load goes on at %s", found)
    return found
