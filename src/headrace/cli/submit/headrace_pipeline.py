"""`headrace pipeline run` as a program for `spark-submit`.

    spark-submit --master yarn "$(headrace pipeline submit-script)" errors.sql -b kafka.example:9092

The file may be copied anywhere: it needs nothing but headrace in the driver's Python.
"""

import sys

from headrace.cli.main import main

if __name__ == "__main__":
    sys.argv[1:1] = ["pipeline", "run"]
    main()
