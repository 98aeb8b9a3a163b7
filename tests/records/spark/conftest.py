"""Tests of Spark are collected where pyspark is installed: their modules import it."""

import importlib.util
import os

import pytest

if importlib.util.find_spec("pyspark") is None:
    if os.environ.get("HEXVEIL_NO_SKIP"):
        pytest.fail("no pyspark (pip install -e .[spark])", pytrace=False)
    collect_ignore_glob = ["test_*.py"]
