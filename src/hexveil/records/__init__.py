"""Records (private side): column mapping, rules, sums."""

from hexveil.records.dataset import Dataset, Sums
from hexveil.records.from_sums import from_sums
from hexveil.records.read import read
from hexveil.records.select import Select
from hexveil.records.sources.record_format import RecordFormat

__all__ = ["Dataset", "RecordFormat", "Select", "Sums", "from_sums", "read"]
