"""The classic groups' assignors: range, roundrobin, sticky and cooperative-sticky, as in Kafka's Java client."""
