"""What a worker says about itself. It is sent there by value, so nothing of headrace is imported at the top.

`probe` runs on workers that may lack everything but Python's own library.
"""

import json


def probe(_: object, headrace_modules: tuple[str, ...]) -> str:
    """Who this worker is and what it can import, as JSON."""
    import importlib
    import os
    import sys

    told: dict[str, object] = {
        "host": os.uname().nodename,
        # Folders of an executor are its own: executors of one machine are told apart by them.
        "executor": os.environ.get("SPARK_LOCAL_DIRS", ""),
        "python": sys.executable,
        "python_version": ".".join(map(str, sys.version_info[:3])),
        "missing": None,
        "headrace": None,
        "pyarrow": None,
    }
    try:
        told["headrace"] = importlib.import_module("headrace").__version__
        told["pyarrow"] = importlib.import_module("pyarrow").__version__
        for name in headrace_modules:
            importlib.import_module(name)
    except ImportError as error:
        told["missing"] = error.name or str(error)
    except Exception as error:  # a package that is broken there: its own words are all there is
        told["missing"] = f"{type(error).__name__}: {error}"
    return json.dumps(told)
