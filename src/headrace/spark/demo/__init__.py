"""What `./run` shows: service logs flow through a cluster and a Spark pipeline, and are accounted for.

    service logs ──► service-logs ──┬─► errors per service and minute ──► errors-per-minute
    (`events`)                      └─► a Parquet table
                     sessions ──────┐
                     users ─────────┴─► sessions joined with users ──► sessions-with-users

`events` invents what a company's services would write, from one seed, writes it to the cluster and remembers
what must come out at the other end. `job` is the Spark program, in a process of its own. `outcome` reads what
comes out with clients that know nothing of Spark, and `account` holds the two against each other.
`demonstration` does one after the other until time is up; how it looks is the command's affair.
"""
