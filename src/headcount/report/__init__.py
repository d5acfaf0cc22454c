"""The results frame, made visible: two charts, and one page that holds everything."""

from headcount.report.charts import error_against_length, heat_map
from headcount.report.page import render_page, write_page
from headcount.report.picture import save_chart

__all__ = ["error_against_length", "heat_map", "render_page", "save_chart", "write_page"]
