"""What every assignment must satisfy, whoever made it."""

from collections import Counter

from headrace.clients.assignors.consumer_partition_assignor import Assignment
from tests.clients.assignors.peer_cases import Case


def check(case: Case, assignment: Assignment) -> None:
    """Members get what they subscribe to, every partition has one owner, and nobody could be better off."""
    assert assignment.keys() == case.subscriptions.keys()
    for member, partitions in assignment.items():
        assert partitions == sorted(partitions)
        assert all(each.topic in case.subscriptions[member].topics for each in partitions)
    owners = Counter(each for partitions in assignment.values() for each in partitions)
    assert set(owners.values()) <= {1}
    claimed = {each for subscription in case.subscriptions.values() for each in subscription.owned_partitions}
    wanted = {topic for subscription in case.subscriptions.values() for topic in subscription.topics}
    for topic in wanted & case.racks.keys():
        for number in range(len(case.racks[topic])):
            # A partition that moves is with nobody until its owner has let go of it.
            assert (topic, number) in owners or (
                case.assignor == "cooperative-sticky" and (topic, number) in claimed
            )
    if case.assignor == "range":
        _check_topics(case, assignment)
    if (
        case.assignor in ("roundrobin", "sticky")
        and len({each.topics for each in case.subscriptions.values()}) == 1
    ):
        sizes = [len(partitions) for partitions in assignment.values()]
        assert max(sizes) - min(sizes) <= 1


def _check_topics(case: Case, assignment: Assignment) -> None:
    for topic in case.racks:
        sizes = [
            sum(each.topic == topic for each in assignment[member])
            for member, subscription in case.subscriptions.items()
            if topic in subscription.topics
        ]
        assert not sizes or max(sizes) - min(sizes) <= 1
