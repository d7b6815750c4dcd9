"""Running plans: epochs, state, results, the graph of live queries.

Recorded sources, to their end::

    engine = Engine(spark, state_uri)               # tidegate.runtime.engine; state_uri: a directory or URI
    result = engine.run("q", plan, definitions, functions, data, progress)
    result.intervals(); result.changes(); result.at(t); result.latest()       # Spark DataFrames
    engine.explain("q", plan, functions)            # the stages, as text

Live sources, until stopped::

    run = engine.start({"q": plan}, definitions, functions, data, sinks={"q": [make_sink("parquet", ("out",))]})
    run.push("S", rows)                             # rows for a `memory` source
    run.result("q").at(t); run.status(); run.add("q2", plan2); run.drop("q")
    run.stop()                                      # engine.start with the same state_uri goes on
    run.drain(); run.finish()                       # take in what is there; make everything final
    run.graph.advance({"S": rows}); run.graph.finish()     # with begin=False: epochs by hand

`definitions` maps the names that plans scan to `StreamDefinition`s, `functions` maps names to user functions (scalar and
aggregate ones together), `data` maps names of `memory` sources to their rows.
"""
