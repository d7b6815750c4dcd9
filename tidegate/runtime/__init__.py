"""Running plans: epochs, state, results, the graph of live queries.

    engine = Engine(spark, state_uri)                                  # state_uri: a directory or URI
    result = engine.run("q", plan, definitions, functions, data)       # recorded sources, to their end
    result.intervals(); result.changes(); result.at(t); result.latest()   # Spark DataFrames

`definitions` maps the names that the plan scans to `StreamDefinition`s, `functions` maps names to user functions, `data`
maps the names of `memory` sources to their rows.
"""
