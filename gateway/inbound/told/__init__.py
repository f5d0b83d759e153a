"""What is known, in words that people read: the same ones in the terminal and in the console."""
