"""Archives: immutable release folders of many days, and pointers to the current one."""
