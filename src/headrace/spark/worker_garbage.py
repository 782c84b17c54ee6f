"""Spares Spark's Python workers the search of everything they have loaded, after every task.

A worker collects garbage before it takes its next task. It walks over all objects of all modules for that,
some hundred thousand of Spark's, Arrow's and ours, none of which is ever garbage: 40 to 100 ms of CPU for a
task whose own work may be one. Modules that are frozen are not looked at; what a task leaves behind still is.
"""

import gc
import sys

_modules_frozen = 0


def spare_modules() -> None:
    """Freeze what is alive, once after modules were loaded; there are only so many of those."""
    global _modules_frozen
    if len(sys.modules) > _modules_frozen:
        _modules_frozen = len(sys.modules)
        gc.freeze()
