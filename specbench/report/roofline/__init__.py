"""What hardware allows: tables and charts of `specbench roofline`."""
