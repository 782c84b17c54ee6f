"""The transaction coordinator: who owns a transactional id, and how each of its transactions ends."""
