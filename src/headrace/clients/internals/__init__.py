"""The clients' machinery: what `Producer`, `Consumer` and `Admin` are made of.

`network_client` reaches brokers and `metadata` knows who leads what; `producer`, `consumer` and `admin` hold
what only one kind of client needs.
"""
