"""Lets Spark find `format("headrace")` by itself: it looks for a module `pyspark_<name>` with this class."""

from headrace.spark.data_source import HeadraceDataSource

DefaultSource = HeadraceDataSource
