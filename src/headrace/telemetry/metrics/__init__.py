"""What is counted and how it is shown: counters for the data path, the catalogue of names, the text."""
