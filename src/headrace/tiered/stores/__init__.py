"""Remote stores: a folder, object stores, HDFS, a user's own class; and how settings open one."""
