"""What one client can do to the others: hostile clients beside a polite one that measures how long it waits.

    python -m tests.compat.attacks [--only NAME ...] [--quick] [--brokers headrace kafka]

A broker runs as a process. Each attack speaks to it by raw sockets from this process; the victim is a process
of its own that asks something small 50 times a second and notes how long each answer took. The first row is
the victim alone, which is what the machine itself makes it wait. `attackers.py` has the attacks.

"machine max ms" is what another such client waited at the same time for a process that does nothing but
answer: what the machine makes everybody wait, because others use it or because the attack's own clients do.
"MiB" is the broker's memory before the attack, and after it once it has settled.

It ends with code 1, and says which rows they were, where the polite client waited longer than a row allows:
50 ms at the median and 250 ms at most, on a machine that does nothing else.
"""
