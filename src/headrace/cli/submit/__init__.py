"""The program for `spark-submit`, alone in a folder: its Python looks for modules there first."""
