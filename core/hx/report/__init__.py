"""Report of an export: its records, the summary for a terminal, JSON, and pages."""

from __future__ import annotations

from .report import Report as Report
