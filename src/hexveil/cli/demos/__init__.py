"""What the demo can show: a module per subject, each with its records, its run and its words."""
