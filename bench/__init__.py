"""Side by side with Apache Kafka: the same client, the same machine, one run, and the ratios."""
