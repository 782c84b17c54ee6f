"""The schemas of Kafka 4.3: a file per request with its response, and a file per family of records.

Names are Kafka's, in snake case. Where a request and its response both have a struct of one name and it
differs, the two are called RequestX and ResponseX. Nothing is imported here: `apis` loads what is used.
"""
