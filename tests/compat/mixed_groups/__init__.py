"""Groups of mixed company: members of many libraries that come, go, crash and freeze while they read a topic.

    python -m tests.compat.mixed_groups --minutes 3 --seed N --broker headrace|kafka [--members 20]

Four groups read one topic of numbered records: a classic eager one (range), a classic cooperative one, one
whose coordinator assigns (KIP-848), and one whose members speak both protocols, so that it is converted back
and forth while it runs. Every member is a process (`roster`) that tells what happens to it as JSON lines
(`lines`); `schedule` makes its life out of a seed: it leaves in order, is killed, is stopped for less or for
more than its session, and comes back. Afterwards three witnesses are heard (`checker`): what the members
told, what the coordinator wrote into `__consumer_offsets` (`coordinator_log`), and what it says when asked.

What is right, and what a stale view is
---------------------------------------
A group promises that a partition has one owner at a time, *in the coordinator's eyes*. A member's own view
must lie inside that ownership with one exception. Who is frozen for longer than its session, or is so slow,
is put out of the group, and others get its partitions; when it wakes up it believes for a moment that they
are its own, and may hand out what it had fetched. That is no fault as long as the group does not believe it:
it must not be able to commit, and it must learn the truth with its next heartbeat. So the checks are:

- the coordinator never gives a partition to two members of one generation, and with KIP-848 never to one
  member before another has let go of it;
- a member claims only what the coordinator gave it; it lets go of a partition before another is given it,
  unless it was put out, and then soon after it wakes up;
- records are delivered to owners only (in their own view), and every record at least once to each group;
- a commit is acknowledged only to the owner (in the coordinator's view), is then in the log, never lies
  beyond what the group was given to read, and never behind an earlier commit;
- at the end every committed offset is the end of its partition, and the coordinator's description of each
  group names the same owners as the members do.
"""
