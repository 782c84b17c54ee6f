"""The web console: a process of its own that speaks Kafka's protocol and serves pages about a cluster.

`server.py` joins the parts: `http_server.py` reads requests, `gate.py` decides who may ask, `routes.py` has
the table of what can be asked, `api/` answers by subject, and `assets/` is what the browser gets. What is
known of a cluster is a `cluster_picture.py`, taken anew by `cluster_watch.py` when it is old.
"""
