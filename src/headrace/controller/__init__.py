"""The controller: requests about the cluster become records of the metadata log. A core decides, a driver
writes.
"""
