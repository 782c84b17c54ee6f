"""SASL mechanisms as machines without sockets: bytes in, bytes out, for both sides of a connection.

`mechanism.py` has what all of them share, `mechanisms.py` the list of them; PLAIN, SCRAM and OAUTHBEARER have
a module each. Whoever runs an exchange (the server's authenticator, the clients' channel builder) hands over
what came and sends what is given back, until the machine is complete.
"""
