"""Ways to install, run, upgrade and move headrace, as the documents tell them."""
