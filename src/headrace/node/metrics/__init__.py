"""What a node shows of itself: figures gathered from its parts when somebody asks, and a listener for it."""
