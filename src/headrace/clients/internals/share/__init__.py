"""The machinery of share consumers (KIP-932): membership, sessions with leaders, and acknowledgements."""
