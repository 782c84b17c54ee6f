"""`range`: each topic is cut into as many runs of neighbouring partitions as it has subscribers.

Members keep the same order for every topic, so topics with equal partitions and subscribers are cut alike,
and who reads partition 3 of one reads partition 3 of the others: what joins between topics need. Static
members come first, by instance, so that a restart does not move anything.
"""

from headrace.coordinators.group.consumer.assignors.question import Question, Targets


def assign_range(question: Question) -> Targets:
    """The first members get one more where it does not divide evenly."""
    targets: Targets = {member_id: {} for member_id in question.members}
    order = sorted(question.members, key=lambda member_id: _seat(question, member_id))
    for topic_id, racks in question.topics.items():
        subscribers = [each for each in order if topic_id in question.members[each].topics]
        if not subscribers:
            continue
        share, extra = divmod(len(racks), len(subscribers))
        start = 0
        for position, member_id in enumerate(subscribers):
            end = start + share + (position < extra)
            if end > start:
                targets[member_id][topic_id] = frozenset(range(start, end))
            start = end
    return targets


def _seat(question: Question, member_id: str) -> tuple[bool, str]:
    instance_id = question.members[member_id].instance_id
    return (instance_id is None, instance_id or member_id)
