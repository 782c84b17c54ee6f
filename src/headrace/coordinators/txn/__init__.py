"""The transaction coordinator: who writes under a transactional id, and how each of its transactions ends."""
