"""The sink: rows of a DataFrame as records of topics.

    df.selectExpr("id AS key", "to_json(struct(*)) AS value") \\
        .write.format("headrace").option("kafka.bootstrap.servers", "127.0.0.1:9092") \\
        .option("topic", "orders").mode("append").save()

The driver checks the schema (`columns`) before anything runs. Each task gets Arrow batches from Spark, cuts
them into pieces of one topic (`rows`) and hands those to a producer, which encodes them with a kernel: no
Python object is made for a record. What a task and the driver owe each other around that (when is a task
done, what does a commit decide) is a delivery strategy (`delivery`), one for each value of the option
`delivery`.
"""
