"""One record at a time: a push-based executor of the algebra that follows Nile, to see what each way of undoing rows costs.

The engine works on columns and in epochs. Here every row travels alone through queues from operator to operator, as in "Incremental Evaluation of
Sliding-Window Queries over Data Streams" (Ghanem, Hammad, Mokbel, Aref, Elmagarmid), so that what travels can be counted. It runs the same plans
over the same streams; the reference judges its answers.
"""
