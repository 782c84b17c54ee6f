"""The same requests to Apache Kafka and to headrace: what Kafka 4.3.1 answered is kept beside each script.

`<name>.py` holds a script of requests, `<name>.kafka.txt` what a real Kafka said to each, `<name>.ours.txt`
the answers in which headrace means to differ, and why. Tests run the script on a simulated node and compare.
`record.py` writes the answers down, from a Kafka that runs.
"""
