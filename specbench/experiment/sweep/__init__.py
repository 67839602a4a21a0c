"""`specbench sweep`: what is asked, the run of every step, and what they say together."""
