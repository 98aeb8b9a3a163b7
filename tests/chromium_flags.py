"""Chromium options for tests: no sandbox, no GPU, no background requests, one process a site."""

FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--process-per-site",
]  # fmt: skip
