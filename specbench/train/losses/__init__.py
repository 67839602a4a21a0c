"""What training minimises: one function per loss, each with its source."""
