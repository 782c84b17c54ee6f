"""The assignors a broker offers for consumer groups: who should read which partition.

Each is a pure function from members and topics to a target, and gives equal answers to equal questions.
"""

from collections.abc import Callable, Mapping
from typing import Final

from headrace.coordinators.group.consumer.assignors.question import Question, Targets
from headrace.coordinators.group.consumer.assignors.range_assignor import assign_range
from headrace.coordinators.group.consumer.assignors.uniform_assignor import assign_uniform

ASSIGNORS: Final[Mapping[str, Callable[[Question], Targets]]] = {
    "uniform": assign_uniform,
    "range": assign_range,
}
