"""Records that a query should have read and that are gone: an error, or a warning where the user says so.

Apart from `reading`, because a driver that plans decodes nothing: Spark starts a process for the planning of
each streaming query, which waits until all modules are loaded.
"""

import logging

from headrace.spark.options import ReadOptions

log = logging.getLogger(__name__)


class LostDataError(RuntimeError):
    """Records that a query should have read are gone, and failOnDataLoss is true."""


def report_data_loss(what: str, options: ReadOptions) -> None:
    """LostDataError, or a warning where failOnDataLoss is false."""
    if options.fail_on_data_loss:
        raise LostDataError(
            f"{what}. Records may be missing from the result. To go on without them, set the option "
            "failOnDataLoss to false"
        )
    log.warning("%s. Records may be missing: failOnDataLoss is false", what)
