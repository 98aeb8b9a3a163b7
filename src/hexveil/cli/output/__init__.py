"""Printed output: tables, numbers in words, progress."""
