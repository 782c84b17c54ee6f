"""What happens, told in one place: log lines that are written for operators."""
