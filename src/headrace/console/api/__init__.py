"""What pages ask for, by subject. Each function gets a `Visit`, and gives what becomes JSON."""
