"""The conversations, by area: a script that says everything once, and a random walk."""
