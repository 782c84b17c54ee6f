"""Who somebody is and what they may do: TLS stores, SASL mechanisms, access rules. Sockets: see transport."""
